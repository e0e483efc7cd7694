package ingress

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

// object returns an HTTPScaledObject of the agent's, older than those that are made after it,
// whose Service has its name; hosts and prefixes are separated by spaces.
func object(name, hosts, prefixes string, change ...func(*httpv1alpha1.HTTPScaledObject)) httpv1alpha1.HTTPScaledObject {
	yes, port := true, int32(80)
	o := httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "shop", Annotations: map[string]string{agent.AutowireAnnotation: "ingress"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: name, Controller: &yes}},
	}}
	o.Spec.Hosts, o.Spec.PathPrefixes = strings.Fields(hosts), strings.Fields(prefixes)
	o.Spec.ScaleTargetRef.Service, o.Spec.ScaleTargetRef.Port = name, &port
	for _, c := range change {
		c(&o)
	}
	return o
}

func withHeader(o *httpv1alpha1.HTTPScaledObject) {
	o.Spec.Headers = []httpv1alpha1.Header{{Name: "x-tester"}}
}

func deleted(o *httpv1alpha1.HTTPScaledObject) {
	o.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
}

func autowire(value string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) { o.Annotations[agent.AutowireAnnotation] = value }
}

func othersOwn(o *httpv1alpha1.HTTPScaledObject) { o.OwnerReferences = nil }

func service(name string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Service = name }
}

// backend returns a backend that is written as service:port.
func backend(text string) *networkingv1.IngressServiceBackend {
	name, port, _ := strings.Cut(text, ":")
	b := &networkingv1.IngressServiceBackend{Name: name}
	if number, err := strconv.Atoi(port); err == nil {
		b.Port.Number = int32(number)
	} else {
		b.Port.Name = port
	}
	return b
}

func backendText(b *networkingv1.IngressServiceBackend) string {
	if b.Port.Name != "" {
		return b.Name + ":" + b.Port.Name
	}
	return fmt.Sprintf("%s:%d", b.Name, b.Port.Number)
}

// ingress returns an Ingress with paths that are written as "host path pathType service:port";
// the host "-" is for none.
func ingress(class string, paths ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-of-web", ResourceVersion: "7"},
		Spec:       networkingv1.IngressSpec{IngressClassName: &class},
	}
	for _, text := range paths {
		field := strings.Fields(text)
		pathType := networkingv1.PathType(field[2])
		path := networkingv1.HTTPIngressPath{Path: field[1], PathType: &pathType, Backend: networkingv1.IngressBackend{Service: backend(field[3])}}
		i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{
			Host:             strings.TrimPrefix(field[0], "-"),
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}},
		})
	}
	return i
}

// entry returns an entry of the record, written like a path with the object behind it.
func entry(text string) wiredPath {
	field := strings.Fields(text)
	b := backend(field[3])
	return wiredPath{Host: strings.TrimPrefix(field[0], "-"), Path: field[1], PathType: networkingv1.PathType(field[2]), Service: b.Name, Port: b.Port, Object: field[4]}
}

// in returns a namespace with objects, the first of which is the oldest, and Ingresses; all
// kedify-proxies have acknowledged all.
func in(objects []httpv1alpha1.HTTPScaledObject, ingresses ...*networkingv1.Ingress) *namespace {
	for i := range objects {
		objects[i].CreationTimestamp = metav1.Unix(int64(i), 0)
	}
	n := &namespace{
		objects: objects, rules: order(objects), paths: make(map[string][]requests),
		ready: func(*httpv1alpha1.HTTPScaledObject) error { return nil },
		samePort: func(_ string, a, b networkingv1.ServiceBackendPort) bool {
			return a == b || a.Name == "http" && b.Number == 80
		},
	}
	var all []networkingv1.Ingress
	for _, i := range ingresses {
		all = append(all, *i)
	}
	n.split(all)
	return n
}

// after returns the backends that the paths of an Ingress have after a decision.
func after(i *networkingv1.Ingress, d *decision) (backends []string) {
	for r, rule := range i.Spec.Rules {
		b := rule.HTTP.Paths[0].Backend.Service
		if c := slices.IndexFunc(d.changes, func(c change) bool { return c.rule == r }); c >= 0 {
			b = d.changes[c].backend
		}
		backends = append(backends, backendText(b))
	}
	return backends
}

const toProxy = "kedify-proxy:8080"

// A path is wired if all of its requests are one object's, and go to its Service.
func TestWhichPathsAreWired(t *testing.T) {
	type objects = []httpv1alpha1.HTTPScaledObject
	for name, test := range map[string]struct {
		objects objects
		paths   []string
		others  *networkingv1.Ingress
		want    []string
		partly  string // part of what is said of a path that stays
	}{
		"the guide's":                    {objects{object("web", "a.test", "")}, []string{"a.test / Prefix web:80"}, nil, []string{toProxy}, ""},
		"below the prefix":               {objects{object("web", "a.test", "/x")}, []string{"a.test /x/y Prefix web:80", "a.test /x Exact web:80"}, nil, []string{toProxy, toProxy}, ""},
		"a slash at the end":             {objects{object("web", "a.test", "/x/")}, []string{"a.test /x Prefix web:80", "a.test /x/ Exact web:80"}, nil, []string{toProxy, toProxy}, ""},
		"a port by its name":             {objects{object("web", "a.test", "")}, []string{"a.test / Prefix web:http"}, nil, []string{toProxy}, ""},
		"a wildcard":                     {objects{object("web", "*.test", "")}, []string{"*.test / Prefix web:80", "a.b.test / Prefix web:80"}, nil, []string{toProxy, toProxy}, ""},
		"no hosts":                       {objects{object("web", "", "")}, []string{"- / Prefix web:80", "a.test / Prefix web:80"}, nil, []string{toProxy, toProxy}, ""},
		"another host":                   {objects{object("web", "a.test", "")}, []string{"b.test / Prefix web:80"}, nil, []string{"web:80"}, ""},
		"a segment is a whole":           {objects{object("web", "a.test", "/x")}, []string{"a.test /xy Prefix web:80"}, nil, []string{"web:80"}, ""},
		"another Service":                {objects{object("web", "a.test", "")}, []string{"a.test / Prefix other:80"}, nil, []string{"other:80"}, ""},
		"no wish":                        {objects{object("web", "a.test", "", autowire("false"))}, []string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, ""},
		"one of several wishes":          {objects{object("web", "a.test", "", autowire("httproute,ingress"))}, []string{"a.test / Prefix web:80"}, nil, []string{toProxy}, ""},
		"being deleted":                  {objects{object("web", "a.test", "", deleted)}, []string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, ""},
		"somebody else's":                {objects{object("web", "a.test", "", othersOwn)}, []string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, ""},
		"another port":                   {objects{object("web", "a.test", "")}, []string{"a.test / Prefix web:81"}, nil, []string{"web:81"}, "use the same"},
		"wider than the prefix":          {objects{object("web", "a.test", "/x")}, []string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, "as narrow as the trigger"},
		"wider than the host":            {objects{object("web", "a.test", "")}, []string{"*.test / Prefix web:80"}, nil, []string{"web:80"}, "as narrow as the trigger"},
		"any host":                       {objects{object("web", "a.test", "")}, []string{"- / Prefix web:80"}, nil, []string{"web:80"}, "as narrow as the trigger"},
		"headers":                        {objects{object("web", "a.test", "", withHeader)}, []string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, "leave headers out"},
		"whatever the controller thinks": {objects{object("web", "a.test", "")}, []string{"a.test / ImplementationSpecific web:80"}, nil, []string{"web:80"}, "set it to Prefix or Exact"},
		"that, of another host":          {objects{object("web", "a.test", "")}, []string{"b.test / ImplementationSpecific web:80"}, nil, []string{"web:80"}, ""},
		"another takes some by path": {objects{object("web", "a.test", ""), object("api", "a.test", "/api")},
			[]string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, "HTTPScaledObject api takes those of host a.test below /api/"},
		"another takes some by host": {objects{object("web", "*.test", ""), object("api", "a.test", "")},
			[]string{"*.test / Prefix web:80"}, nil, []string{"web:80"}, "HTTPScaledObject api takes those"},
		"another takes some by header": {objects{object("web", "a.test", ""), object("api", "a.test", "", withHeader)},
			[]string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, "HTTPScaledObject api takes those"},
		"an older one takes all": {objects{object("api", "a.test", ""), object("web", "a.test", "")},
			[]string{"a.test / Prefix web:80"}, nil, []string{"web:80"}, "HTTPScaledObject api takes those"},
		"a younger one takes none": {objects{object("web", "a.test", ""), object("api", "a.test", "")},
			[]string{"a.test / Prefix web:80"}, nil, []string{toProxy}, ""},
		"another is beside it": {objects{object("web", "a.test", "/x"), object("api", "a.test", "/x-api")},
			[]string{"a.test /x Prefix web:80"}, nil, []string{toProxy}, ""},
		"each has its path": {objects{object("web", "a.test", ""), object("api", "a.test", "/api")},
			[]string{"a.test / Prefix web:80", "a.test /api Prefix api:80"}, nil, []string{toProxy, toProxy}, ""},
		"each has its host": {objects{object("web", "*.test", ""), object("api", "a.test", "")},
			[]string{"*.test / Prefix web:80", "a.test / Prefix api:80"}, nil, []string{toProxy, toProxy}, ""},
		"the other's path is in another Ingress": {objects{object("web", "a.test", ""), object("api", "a.test", "/api")},
			[]string{"a.test / Prefix web:80"}, ingress("nginx", "a.test /api Prefix api:80"), []string{toProxy}, ""},
		"and in one of another controller": {objects{object("web", "a.test", ""), object("api", "a.test", "/api")},
			[]string{"a.test / Prefix web:80"}, ingress("contour", "a.test /api Prefix api:80"), []string{"web:80"}, "HTTPScaledObject api takes those"},
		"the other's path is too narrow": {objects{object("web", "a.test", ""), object("api", "a.test", "/api")},
			[]string{"a.test / Prefix web:80", "a.test /api/v1 Prefix api:80", "a.test /api Exact api:80"}, nil, []string{"web:80", toProxy, toProxy}, "HTTPScaledObject api takes those"},
	} {
		t.Run(name, func(t *testing.T) {
			i := ingress("nginx", test.paths...)
			all := []*networkingv1.Ingress{i}
			if test.others != nil {
				all = append(all, test.others)
			}
			d := in(test.objects, all...).decide(i, nil, nil)
			if diff := cmp.Diff(test.want, after(i, d)); diff != "" {
				t.Errorf("backends (-want +got):\n%s", diff)
			}
			if said := fmt.Sprint(d.partly); test.partly == "" && len(d.partly) > 0 || !strings.Contains(said, test.partly) {
				t.Errorf("said %s, want %q", said, test.partly)
			}
		})
	}
}

// What is wired stays so until it is to be put back; what was written down is of paths that
// are there.
func TestWiredPathsStayOrArePutBack(t *testing.T) {
	const wiredOnce, was = "a.test / Prefix kedify-proxy:8080", "a.test / Prefix web:http web"
	web := func(change ...func(*httpv1alpha1.HTTPScaledObject)) []httpv1alpha1.HTTPScaledObject {
		return []httpv1alpha1.HTTPScaledObject{object("web", "a.test", "", change...)}
	}
	for name, test := range map[string]struct {
		objects []httpv1alpha1.HTTPScaledObject
		path    string
		before  string
		set     func(*namespace)
		alone   error
		want    string
		record  []wiredPath
		wired   []string
	}{
		"stays":                          {web(), wiredOnce, was, nil, nil, toProxy, []wiredPath{entry(was)}, []string{"web"}},
		"not acknowledged as it is now":  {web(), wiredOnce, was, func(n *namespace) { n.ready = notReady }, nil, toProxy, []wiredPath{entry(was)}, []string{"web"}},
		"left alone":                     {web(), wiredOnce, was, nil, errors.New("left alone"), toProxy, []wiredPath{entry(was)}, []string{"web"}},
		"the object is gone":             {nil, wiredOnce, was, nil, nil, "web:http", nil, nil},
		"the object is being deleted":    {web(deleted, service("web-2")), wiredOnce, was, nil, nil, "web-2:http", nil, nil},
		"the key is gone":                {web(autowire("")), wiredOnce, was, nil, nil, "web:http", nil, nil},
		"no kedify-proxy":                {web(), wiredOnce, was, func(n *namespace) { n.proxiesGone = true }, nil, "web:http", nil, nil},
		"another host":                   {[]httpv1alpha1.HTTPScaledObject{object("web", "b.test", "")}, wiredOnce, was, nil, nil, "web:http", nil, nil},
		"headers":                        {web(withHeader), wiredOnce, was, nil, nil, "web:http", nil, nil},
		"another object takes some":      {append(web(), object("api", "a.test", "/api")), wiredOnce, was, nil, nil, "web:http", nil, nil},
		"another Service":                {web(service("web-2")), wiredOnce, was, nil, nil, toProxy, []wiredPath{entry(was)}, []string{"web"}},
		"somebody else's doing":          {web(), wiredOnce, "", nil, nil, toProxy, nil, []string{"web"}},
		"that, and the object is gone":   {nil, wiredOnce, "", nil, nil, toProxy, nil, nil},
		"that, of another host":          {web(), "b.test / Prefix kedify-proxy:8080", "", nil, nil, toProxy, nil, nil},
		"the path was changed":           {web(), "a.test /x Exact kedify-proxy:8080", was, nil, nil, toProxy, []wiredPath{entry("a.test /x Exact web:http web")}, []string{"web"}},
		"the host was changed":           {web(), "b.test / Prefix kedify-proxy:8080", was, nil, nil, "web:http", nil, nil},
		"the backend was changed":        {web(), "a.test / Prefix theirs:80", was, nil, nil, "theirs:80", nil, nil},
		"another path came in its place": {web(), "b.test / Prefix theirs:80", was, nil, nil, "theirs:80", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			i := ingress("nginx", test.path)
			n := in(test.objects, i)
			if test.set != nil {
				test.set(n)
			}
			var before record
			if test.before != "" {
				before = record{entry(test.before)}
			}
			d := n.decide(i, before, test.alone)
			if got := after(i, d); got[0] != test.want {
				t.Errorf("backend %s, want %s", got[0], test.want)
			}
			if diff := cmp.Diff(test.record, []wiredPath(d.record)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.wired, d.wired); diff != "" {
				t.Errorf("wired (-want +got):\n%s", diff)
			}
		})
	}
}

func notReady(*httpv1alpha1.HTTPScaledObject) error { return errors.New("not acknowledged") }

// A path that waits stays as it is, and the object says what for.
func TestWhatAPathWaitsFor(t *testing.T) {
	alone := errors.New("left alone")
	for name, test := range map[string]struct {
		set   func(*namespace)
		alone error
		want  string
	}{
		"an acknowledgement": {func(n *namespace) { n.ready = notReady }, nil, "not acknowledged"},
		"a kedify-proxy":     {func(n *namespace) { n.proxiesGone = true }, nil, "no kedify-proxy is ready"},
		"another writer":     {func(*namespace) {}, alone, "left alone"},
	} {
		t.Run(name, func(t *testing.T) {
			i := ingress("nginx", "a.test / Prefix web:80")
			n := in([]httpv1alpha1.HTTPScaledObject{object("web", "a.test", "")}, i)
			test.set(n)
			d := n.decide(i, nil, test.alone)
			if len(d.changes) > 0 || len(d.record) > 0 || d.notWired["web"] != test.want {
				t.Errorf("changes %v, record %v, not wired %v, want %q", d.changes, d.record, d.notWired, test.want)
			}
		})
	}
}

func TestAnObjectSaysWhyItIsNotWired(t *testing.T) {
	o := object("web", "a.test", "")
	for _, test := range []struct {
		why    string
		partly []string
		want   string
	}{
		{"no kedify-proxy is ready", []string{"path /"}, "no kedify-proxy is ready"},
		{"", []string{"path / stays", "path /x stays"}, "path / stays; path /x stays"},
		{"", nil, "no Ingress of the namespace has a path of its hosts with the backend web:80, or kedify-proxy:8080"},
	} {
		if got := explain(&o, test.why, test.partly); got != test.want {
			t.Errorf("%q, %v: got %q, want %q", test.why, test.partly, got, test.want)
		}
	}
}
