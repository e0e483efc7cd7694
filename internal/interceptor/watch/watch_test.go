package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// patience bounds each wait for something that has to come.
const patience = time.Minute

// seen is a consumer that records what it gets.
type seen struct {
	mu               sync.Mutex
	table            *routes.Table
	updates          int
	opened, resolved []routes.Problem
}

func (s *seen) Update(table *routes.Table, changes routes.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table = table
	s.updates++
	s.opened = append(s.opened, changes.Opened...)
	s.resolved = append(s.resolved, changes.Resolved...)
}

// routes lists the routes, each with its backends as service:weight:ready endpoints.
func (s *seen) routes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		return "no table"
	}
	var all []string
	for r := range s.table.Routes() {
		line := r.Name.Name
		for i := range r.Backends {
			b := &r.Backends[i]
			line += fmt.Sprintf(" %s:%d:%d", b.Service, b.Weight, len(b.Ready))
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

func (s *seen) problems(list *[]routes.Problem, reason routes.Reason) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range *list {
		if p.Reason == reason {
			n++
		}
	}
	return n
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

type world struct {
	t   *testing.T
	api *apiServer
	*seen
	log *logged
}

func newWorld(t *testing.T) *world {
	return &world{t: t, api: newAPIServer(t), seen: &seen{}, log: &logged{}}
}

func (w *world) start(options Options) *Watch {
	w.t.Helper()
	options.Log = slog.New(slog.NewTextHandler(w.log, nil))
	options.Consumers = append([]Consumer{w.seen}, options.Consumers...)
	watching, err := New(w.api.config(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		watching.Run(ctx)
	}()
	w.t.Cleanup(func() {
		end()
		select {
		case <-over:
		case <-time.After(patience):
			w.t.Error("Run does not return")
		}
	})
	return watching
}

func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s\nroutes: %s\nlog:\n%s", what, w.routes(), &w.log.text)
		}
	}
}

func (w *world) becomes(want string) {
	w.t.Helper()
	w.eventually("routes "+want, func() bool { return w.routes() == want })
}

// app makes an HTTPScaledObject, its Service and an EndpointSlice of the Service.
func (w *world) app(name string) {
	w.service(name)
	w.endpoints(name, "10.0.0.1")
	w.object(name, name+".test")
}

func (w *world) object(name string, hosts any) {
	w.api.put("httpscaledobjects", "demo", name, object{"spec": object{
		"hosts": hostList(hosts), "scaleTargetRef": object{"service": name, "port": 80},
	}})
}

func hostList(hosts any) any {
	if h, ok := hosts.(string); ok {
		return []string{h}
	}
	return hosts
}

func (w *world) service(name string) {
	w.api.put("services", "demo", name, object{"spec": object{"ports": []object{{"port": 80}}}})
}

func (w *world) endpoints(service string, addresses ...string) {
	list := []object{}
	for _, a := range addresses {
		list = append(list, object{"addresses": []string{a}, "conditions": object{"ready": true}})
	}
	w.api.put("endpointslices", "demo", service+"-1", object{
		"metadata":    object{"labels": object{"kubernetes.io/service-name": service}},
		"addressType": "IPv4", "ports": []object{{"name": "", "port": 8080}}, "endpoints": list,
	})
}

func TestTableFollowsTheCluster(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.start(Options{})
	w.becomes("a a:100:1")
	w.endpoints("a", "10.0.0.1", "10.0.0.2")
	w.becomes("a a:100:2")
	w.app("b")
	w.becomes("a a:100:2, b b:100:1")
	w.api.delete("httpscaledobjects", "demo", "a")
	w.becomes("b b:100:1")
	w.api.delete("endpointslices", "demo", "b-1")
	w.becomes("b b:100:0")
	w.api.delete("services", "demo", "b")
	w.eventually("b's Service is missed", func() bool { return w.problems(&w.opened, routes.UnknownService) == 1 })
	for _, resource := range []string{"httpscaledobjects", "services", "endpointslices"} {
		if n := w.api.count("list", resource); n != 1 {
			t.Errorf("%s were listed %d times, want once and then a watch", resource, n)
		}
	}
}

func TestAnEmptyClusterHasATableToo(t *testing.T) {
	w := newWorld(t)
	w.start(Options{})
	w.becomes("")
}

func TestOnlyOneNamespace(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.put("httpscaledobjects", "other", "x", object{"spec": object{"scaleTargetRef": object{"service": "x", "port": 80}}})
	w.start(Options{Namespace: "demo"})
	w.becomes("a a:100:1")
}

func TestFirstTableWaitsForAllThreeLists(t *testing.T) {
	for _, late := range []string{"httpscaledobjects", "services", "endpointslices"} {
		t.Run(late, func(t *testing.T) {
			w := newWorld(t)
			w.app("a")
			release := make(chan struct{})
			w.api.setFault(func(_ http.ResponseWriter, verb, resource string) bool {
				if verb == "list" && resource == late {
					<-release
				}
				return false
			})
			w.start(Options{})
			for _, other := range []string{"httpscaledobjects", "services", "endpointslices"} {
				if other != late {
					w.eventually(other+" are watched", func() bool { return w.api.count("watch", other) > 0 })
				}
			}
			if got := w.routes(); got != "no table" {
				t.Errorf("a table before %s were read: %s", late, got)
			}
			close(release)
			w.becomes("a a:100:1")
			if n := len(w.opened); n != 0 {
				t.Errorf("%d problems of what was not read yet: %v", n, w.opened)
			}
		})
	}
}

func TestListsOfManyPagesAreReadWhole(t *testing.T) {
	w := newWorld(t)
	const n = 2*pageSize + 1
	for i := range n {
		w.object(fmt.Sprintf("app-%d", i), fmt.Sprintf("app-%d.test", i))
	}
	w.start(Options{})
	w.eventually("all routes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.table != nil && w.table.Len() == n
	})
	if pages := w.api.count("list", "httpscaledobjects"); pages != 3 {
		t.Errorf("%d pages, want 3", pages)
	}
}

func TestRelistDeletesWhatIsGone(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.app("b")
	w.start(Options{})
	w.becomes("a a:100:1, b b:100:1")
	// While no watch runs, objects are deleted, and the version that a watch would
	// continue from expires.
	w.api.setFault(down)
	w.api.delete("httpscaledobjects", "demo", "a")
	w.api.delete("endpointslices", "demo", "b-1")
	w.api.forget()
	w.api.setFault(nil)
	w.becomes("b b:100:0")
}

func TestAPIServerAway(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.start(Options{})
	w.becomes("a a:100:1")
	for _, resource := range []string{"httpscaledobjects", "services", "endpointslices"} {
		w.eventually(resource+" are watched", func() bool { return w.api.count("watch", resource) > 0 })
	}
	// A watch that ends at once, without an event, is begun again with a list.
	w.app("watched")
	w.becomes("a a:100:1, watched watched:100:1")
	lists := w.api.count("list", "httpscaledobjects")
	w.api.stop()
	w.eventually("it is said that it is away", func() bool { return w.log.count("does not answer") == 1 })
	w.app("b")
	if got := w.routes(); got != "a a:100:1, watched watched:100:1" {
		t.Errorf("served while the API server is away: %s", got)
	}
	w.api.restart()
	w.becomes("a a:100:1, b b:100:1, watched watched:100:1")
	w.eventually("it is said that it answers again", func() bool { return w.log.count("answers again") == 1 })
	if n := w.log.count("does not answer"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, &w.log.text)
	}
	if n := w.api.count("list", "httpscaledobjects"); n != lists {
		t.Errorf("everything was listed again, where a watch goes on")
	}
}

func TestStartWithoutAPIServer(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.setFault(down)
	w.start(Options{})
	w.eventually("asked again and again", func() bool { return w.api.count("list", "services") >= 3 })
	if got := w.routes(); got != "no table" {
		t.Errorf("a table without an API server: %s", got)
	}
	w.api.setFault(nil)
	w.becomes("a a:100:1")
}

func TestRefusalSaysWhatIsMissing(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t)
			w.app("a")
			w.api.setFault(forbid(verb, "endpointslices"))
			w.start(Options{})
			says := fmt.Sprintf("the API server refuses to %s endpointslices.discovery.k8s.io in all namespaces", verb)
			w.eventually("it is said", func() bool { return w.log.count(says) == 1 })
			if w.log.count("kubectl apply -k deploy/interceptor") != 1 {
				t.Errorf("what to do is not said:\n%s", &w.log.text)
			}
			asked := w.api.count(verb, "endpointslices")
			w.eventually("it is asked again", func() bool { return w.api.count(verb, "endpointslices") >= asked+2 })
			if n := w.log.count(says); n != 1 {
				t.Errorf("said %d times, want once", n)
			}
			w.api.setFault(nil)
			w.becomes("a a:100:1")
			w.eventually("its end is said", func() bool { return w.log.count("lets us read again") == 1 })
		})
	}
}

func TestMissingDefinitionIsTold(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.setFault(func(rw http.ResponseWriter, _, resource string) bool {
		if resource == "httpscaledobjects" {
			answer(rw, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, ""))
			return true
		}
		return false
	})
	w.start(Options{})
	w.eventually("it is said", func() bool { return w.log.count("has no httpscaledobjects.http.keda.sh") == 1 })
	if w.log.count("kubectl apply -k deploy/crds") != 1 {
		t.Errorf("what to do is not said:\n%s", &w.log.text)
	}
	w.api.setFault(nil)
	w.becomes("a a:100:1")
}

func TestOneUnreadableObjectIsQuarantined(t *testing.T) {
	w := newWorld(t)
	w.object("bad", 7) // a number where a list belongs
	w.app("a")
	w.start(Options{})
	w.becomes("a a:100:1")
	w.eventually("told", func() bool { return w.problems(&w.opened, Unreadable) == 1 })
	w.mu.Lock()
	p := w.opened[0]
	w.mu.Unlock()
	if p.Object != (types.NamespacedName{Namespace: "demo", Name: "bad"}) || p.UID != "uid-bad" || !strings.Contains(p.Message, "spec.hosts") {
		t.Errorf("the problem does not say which object and field: %+v", p)
	}
	// An object that was good before is still served, and its problem reported.
	w.object("a", 8)
	w.eventually("told", func() bool { return w.problems(&w.opened, Unreadable) == 2 })
	w.app("c")
	w.becomes("a a:100:1, c c:100:1")
	// When an object is mended or deleted, its problem is resolved.
	w.api.delete("httpscaledobjects", "demo", "bad")
	w.object("a", "a.test")
	w.eventually("both resolved", func() bool { return w.problems(&w.resolved, Unreadable) == 2 })
	w.becomes("a a:100:1, c c:100:1")
}

func TestAddressesOfAService(t *testing.T) {
	for name, namespace := range map[string]string{"of a namespace that is watched": "", "of another namespace": "demo"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			service := func(ports []object, ips ...string) {
				w.api.put("services", "keda", "proxy", object{"spec": object{"clusterIPs": ips, "ports": ports}})
			}
			one := []object{{"name": "any", "port": 8081}}
			w.app("a")
			service(one, "10.96.0.7", "fd00::7")
			w.api.put("services", "keda", "another", object{"spec": object{"clusterIPs": []string{"10.96.0.9"}, "ports": one}})
			next, options := toldAddresses(w)
			options.Namespace = namespace
			w.start(options)
			next("10.96.0.7:8081 [fd00::7]:8081 before the first table")
			w.becomes("a a:100:1")
			service(one, "10.96.0.8")
			next("10.96.0.8:8081")
			w.api.delete("services", "keda", "proxy")
			next("none: there is no such Service")
			service(one, "None")
			next("none: it has no ClusterIP: it is headless or of another type")
			service([]object{{"name": "http", "port": 80}, {"name": "fallback", "port": 81, "targetPort": 8081}}, "10.96.0.9")
			next("10.96.0.9:81")
			service([]object{{"name": "http", "port": 80}, {"name": "https", "port": 443}}, "10.96.0.9")
			next(`none: it has no port "fallback"`)
		})
	}
}

// toldAddresses returns options with an address Service, and a function that waits for
// the next call of OnAddresses and checks it.
func toldAddresses(w *world) (next func(want string), options Options) {
	told := make(chan string, 10)
	options = Options{
		AddressService: types.NamespacedName{Namespace: "keda", Name: "proxy"}, AddressPort: "fallback",
		OnAddresses: func(addresses []netip.AddrPort, why string) {
			text := "none: " + why
			if len(addresses) > 0 {
				text = fmt.Sprint(addresses)
				text = text[1 : len(text)-1]
			}
			if w.routes() == "no table" {
				text += " before the first table"
			}
			told <- text
		},
	}
	return func(want string) {
		w.t.Helper()
		select {
		case got := <-told:
			if got != want {
				w.t.Errorf("told %q, want %q", got, want)
			}
		case <-time.After(patience):
			w.t.Fatalf("not told: %s", want)
		}
	}, options
}

func TestAMissingAddressServiceIsTold(t *testing.T) {
	for name, namespace := range map[string]string{"of a namespace that is watched": "", "of another namespace": "demo"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.app("a")
			next, options := toldAddresses(w)
			options.Namespace = namespace
			w.start(options)
			w.becomes("a a:100:1")
			next("none: there is no such Service before the first table")
		})
	}
}

// After a restart with --watch-namespace, no endpoint assignments are sent that lack
// the fallback.
func TestFirstTableWaitsForAnAddressServiceApart(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.put("services", "keda", "proxy", object{"spec": object{"clusterIPs": []string{"10.96.0.7"}, "ports": []object{{"port": 8081}}}})
	release := make(chan struct{})
	w.api.setNamespaceFault(func(_ http.ResponseWriter, verb, resource, namespace string) bool {
		if verb == "list" && resource == "services" && namespace == "keda" {
			<-release
		}
		return false
	})
	next, options := toldAddresses(w)
	options.Namespace = "demo"
	w.start(options)
	for _, other := range []string{"httpscaledobjects", "services", "endpointslices"} {
		w.eventually(other+" are watched", func() bool { return w.api.count("watch", other) > 0 })
	}
	if got := w.routes(); got != "no table" {
		t.Errorf("a table before the address Service was read: %s", got)
	}
	close(release)
	w.becomes("a a:100:1")
	next("10.96.0.7:8081 before the first table")
}

// An interceptor that may not read the address Service still serves.
func TestAnAddressServiceThatMayNotBeRead(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.api.setNamespaceFault(func(rw http.ResponseWriter, verb, resource, namespace string) bool {
		return namespace == "keda" && forbid(verb, "services")(rw, verb, resource)
	})
	next, options := toldAddresses(w)
	options.Namespace = "demo"
	w.start(options)
	w.becomes("a a:100:1")
	next("none: the API server does not let us read it before the first table")
	w.api.setNamespaceFault(nil)
	next("none: there is no such Service")
}

func TestABurstIsOneTable(t *testing.T) {
	w := newWorld(t)
	changes := make(chan change, backlog)
	for k := range kind(tableKinds) {
		changes <- change{kind: k, pass: 1, listed: true}
	}
	for i := range 1000 {
		name := fmt.Sprintf("app-%d", i)
		changes <- change{kind: httpScaledObjects, pass: 1, name: types.NamespacedName{Namespace: "demo", Name: name},
			object: decode(fmt.Appendf(nil, `{"metadata":{"namespace":"demo","name":%q},"spec":{"hosts":["%s.test"],"scaleTargetRef":{"service":"s","port":80}}}`, name, name))}
	}
	options := &Options{Log: slog.New(slog.DiscardHandler), Consumers: []Consumer{w.seen}}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		newFeed(options, newMetrics()).run(ctx, changes)
	}()
	w.eventually("all routes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.table != nil && w.table.Len() == 1000
	})
	end()
	<-over
	if diff := cmp.Diff(1, w.updates); diff != "" {
		t.Errorf("tables: %s", diff)
	}
}

// What the namespace with most hosts asks for is told, beside the limit.
func TestMatchesOfANamespaceAreTold(t *testing.T) {
	w := newWorld(t)
	w.app("a")
	w.app("b")
	policy := routes.DefaultPolicy()
	policy.MaxMatchesPerNamespace = 7
	watching := w.start(Options{Policy: policy})
	w.eventually("both objects counted", func() bool {
		return slices.Equal(watching.Limits(), []usage.Limit{{Name: "max-matches-per-namespace", Used: 2, Max: 7}})
	})
}
