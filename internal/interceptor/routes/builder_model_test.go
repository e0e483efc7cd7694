package routes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// shown is all that can be seen of a table, in a form that can be compared.
type shown struct {
	Routes       map[string]shownRoute
	VirtualHosts map[string][]string
	Problems     []Problem
}

type shownRoute struct {
	UID                           types.UID
	Generation                    int64
	Annotation                    string
	Hosts, Prefixes               []string
	Headers                       []Header
	Allowed                       []string
	Crowded, LeftOut              bool
	Created                       time.Time
	Backends                      []Backend
	Split, Cold, AccessLog        bool
	Rollout                       string
	Failover                      *Failover
	ConditionWait, ResponseHeader *time.Duration
	// Of the form, which the route keeps as its last good form when the next one is
	// bad.
	Target         string
	FailoverTarget string
}

func show(t *Table) shown {
	s := shown{Routes: map[string]shownRoute{}, VirtualHosts: map[string][]string{}, Problems: t.Problems()}
	for r := range t.Routes() {
		s.Routes[r.Name.String()] = shownRoute{
			r.UID, r.Generation, r.Annotation, r.Hosts(), r.PathPrefixes(), r.Headers(), r.spec.match.allowed, r.spec.match.crowded, r.spec.match.leftOut, r.spec.match.created, slices.Clone(r.Backends), r.Split, r.Cold(), r.AccessLog, r.Rollout,
			r.Failover, r.ConditionWait, r.ResponseHeader, fmt.Sprint(r.spec.target), fmt.Sprint(deref(r.spec.failover)),
		}
	}
	for vh := range t.VirtualHosts(nil) {
		for _, m := range vh.Matches {
			s.VirtualHosts[vh.Domain] = append(s.VirtualHosts[vh.Domain], fmt.Sprintf("%s %#v %s", m.PathPrefix, m.Headers, m.Route.Name))
		}
	}
	return s
}

var compareAddresses = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

// world is a cluster that changes at random.
type world struct {
	random   *rand.Rand
	objects  map[types.NamespacedName]*httpv1alpha1.HTTPScaledObject
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice
}

func (w *world) inputs() inputs {
	var in inputs
	for _, o := range w.objects {
		in.HTTPScaledObjects = append(in.HTTPScaledObjects, o)
	}
	for _, o := range w.services {
		in.Services = append(in.Services, o)
	}
	for _, o := range w.slices {
		in.EndpointSlices = append(in.EndpointSlices, o)
	}
	return in
}

var someNamespaces = []string{"n", "n-1"}

// step changes one thing and tells the builder.
func (w *world) step(b *Builder) {
	name := types.NamespacedName{Namespace: pick(w.random, someNamespaces), Name: fmt.Sprint("s", w.random.IntN(3))}
	remove := w.random.IntN(6) == 0
	switch w.random.IntN(4) {
	case 0, 1:
		name.Name = fmt.Sprint("o", w.random.IntN(4))
		if remove {
			delete(w.objects, name)
			b.DeleteHTTPScaledObject(name)
			return
		}
		o := w.object(name)
		w.objects[name] = o
		b.SetHTTPScaledObject(o.DeepCopy())
	case 2:
		if remove {
			delete(w.services, name)
			b.DeleteService(name)
			return
		}
		s := w.service(name)
		w.services[name] = s
		b.SetService(s.DeepCopy())
	case 3:
		owner := name.Name
		name.Name = fmt.Sprint("e", w.random.IntN(4))
		if remove {
			delete(w.slices, name)
			b.DeleteEndpointSlice(name)
			return
		}
		s := w.slice(name, owner)
		w.slices[name] = s
		b.SetEndpointSlice(s.DeepCopy())
	}
}

func (w *world) object(name types.NamespacedName) *httpv1alpha1.HTTPScaledObject {
	old := w.objects[name]
	o := randomObject(w.random, name.Namespace, name.Name)
	o.UID, o.Generation = types.UID(fmt.Sprint(w.random.IntN(1<<30))), int64(w.random.IntN(3))
	if old != nil && w.random.IntN(8) > 0 {
		// Mostly it is the same object as before.
		o.UID, o.CreationTimestamp = old.UID, old.CreationTimestamp
		if w.random.IntN(2) == 0 {
			o.Spec = *old.Spec.DeepCopy()
		}
	}
	switch w.random.IntN(12) {
	case 0:
		o.Spec.Hosts = []string{"not a host"}
	case 1:
		o.Spec.ScaleTargetRef.Port = nil
	case 2:
		o.Spec.ScaleTargetRef.Service = "s2"
	case 3:
		name := "http"
		o.Spec.ScaleTargetRef.Port, o.Spec.ScaleTargetRef.PortName = nil, &name
	case 4:
		port := int32(81)
		o.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "s0", Port: &port}
	case 5:
		timeouts := httpv1alpha1.Timeouts{}
		if o.Spec.Timeouts != nil {
			timeouts = *o.Spec.Timeouts
		}
		timeout := pick(w.random, []string{"5s", "soon", "-1s", "0s"})
		*pick(w.random, []**string{&timeouts.ConditionWait, &timeouts.ResponseHeader}) = &timeout
		o.Spec.Timeouts = &timeouts
	}
	if text := pick(w.random, []string{
		"", "", "- {service: s1, weight: 80}\n- {service: s2, weight: 20}\n", "- {service: s1, weight: 0}\n- {service: s2, weight: 1}\n",
		"- {service: s1, weight: 0}\n", "- nonsense", "- {service: s0, weight: 3}\n", "- {service: nowhere, weight: 1}\n",
	}); text != "" {
		o.Annotations[weightedbackends.Annotation], o.Annotations[weightedbackends.OwnerAnnotation] = text, pick(w.random, []string{"r1", "r2"})
	}
	return o
}

func (w *world) service(name types.NamespacedName) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "other", Port: 81}}[:1+w.random.IntN(2)]
	switch w.random.IntN(6) {
	case 0:
		s.Spec.Type = corev1.ServiceTypeExternalName
	case 1:
		s.Spec.Ports[0].Name = ""
	case 2:
		protocol := pick(w.random, []string{"grpc", "https"})
		s.Spec.Ports[0].AppProtocol = &protocol
	}
	return s
}

func (w *world) slice(name types.NamespacedName, owner string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, AddressType: discoveryv1.AddressTypeIPv4}
	if w.random.IntN(8) > 0 {
		s.Labels = map[string]string{discoveryv1.LabelServiceName: owner}
	}
	for _, port := range []string{"http", "other", ""} {
		number := 8080 + int32(w.random.IntN(2))
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port, Port: &number})
	}
	if w.random.IntN(3) == 0 {
		protocol := pick(w.random, []string{"kubernetes.io/h2c", "grpc", "https"})
		s.Ports[0].AppProtocol = &protocol
	}
	for range w.random.IntN(4) {
		ready, serving, terminating := w.random.IntN(2) == 0, w.random.IntN(2) == 0, w.random.IntN(2) == 0
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprint("10.0.0.", 1+w.random.IntN(4))},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		})
	}
	return s
}

// FuzzBuilder: after any steps and commits, a Builder has the table that build makes of
// everything at once; the changes that it reports are those found by comparing the two
// tables; and earlier tables stay as they were.
func FuzzBuilder(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := &world{
			random:   rand.New(rand.NewPCG(seed, 1)),
			objects:  map[types.NamespacedName]*httpv1alpha1.HTTPScaledObject{},
			services: map[types.NamespacedName]*corev1.Service{},
			slices:   map[types.NamespacedName]*discoveryv1.EndpointSlice{},
		}
		policy := randomPolicy(w.random)
		b := NewBuilderOf(policy)
		before, scratch := b.Table(), (*Table)(nil)
		was := show(before)
		for commit := range 25 {
			for range w.random.IntN(6) {
				w.step(b)
			}
			after, changes := b.Commit()
			is := show(after)
			if diff := cmp.Diff(was, show(before), compareAddresses); diff != "" {
				t.Fatalf("commit %d changed the table before it (-then +now):\n%s", commit, diff)
			}
			scratch = NewBuilderOf(policy).build(w.inputs(), scratch)
			if diff := cmp.Diff(show(scratch), is, compareAddresses); diff != "" {
				t.Fatalf("commit %d (-from scratch +by steps):\n%s", commit, diff)
			}
			checkChanges(t, was, is, before, after, changes)
			checkBudget(t, policy, slices.Collect(after.Routes()))
			checkMostMatches(t, b)
			checkNobodyGoesForOthers(t, was, is)
			for r := range after.Routes() {
				checkShares(t, r)
			}
			before, was = after, is
		}
		for name := range w.objects {
			b.DeleteHTTPScaledObject(name)
		}
		for name := range w.services {
			b.DeleteService(name)
		}
		for name := range w.slices {
			b.DeleteEndpointSlice(name)
		}
		table, _ := b.Commit()
		if diff := cmp.Diff(show(&Table{}), show(table)); diff != "" {
			t.Errorf("with everything gone, the table is (-want +got):\n%s", diff)
		}
		if n := len(b.objects) + len(b.services) + len(b.slices) + len(b.shadows) + len(b.disputes.owned) + len(b.disputes.foreign) +
			len(b.limit.namespaces) + len(b.budget.namespaces) + b.budget.used.own + len(b.budget.used.below) + len(b.budget.short); n != 0 {
			t.Errorf("with everything gone, the builder remembers %d things: %+v", n, b)
		}
	})
}

func checkMostMatches(t *testing.T, b *Builder) {
	t.Helper()
	asked := map[string]int{"": 0}
	for name, o := range b.objects {
		asked[name.Namespace] += o.request.matches
	}
	if got, want := b.MostMatches(), slices.Max(slices.Collect(maps.Values(asked))); got != want {
		t.Fatalf("the busiest namespace asks for %d matches, told are %d", want, got)
	}
}

// checkNobodyGoesForOthers: an object is left out, or crowded out, only when
// something changed in its own namespace.
func checkNobodyGoesForOthers(t *testing.T, was, is shown) {
	t.Helper()
	changed := make(map[string]bool)
	for key, r := range was.Routes {
		namespace, _, _ := strings.Cut(key, "/")
		now := is.Routes[key]
		if !slices.Equal(r.Hosts, now.Hosts) || !slices.Equal(r.Prefixes, now.Prefixes) || !slices.Equal(r.Headers, now.Headers) || !r.Created.Equal(now.Created) {
			changed[namespace] = true
		}
	}
	for key := range is.Routes {
		namespace, _, _ := strings.Cut(key, "/")
		if _, had := was.Routes[key]; !had {
			changed[namespace] = true
		}
	}
	for key, r := range was.Routes {
		namespace, _, _ := strings.Cut(key, "/")
		if now := is.Routes[key]; !changed[namespace] && !r.Crowded && now.Crowded {
			t.Fatalf("%s is crowded out, and nothing changed in its namespace", key)
		}
	}
}

func checkChanges(t *testing.T, was, is shown, before, after *Table, changes Changes) {
	t.Helper()
	if changes.Empty() != (before == after) {
		t.Fatalf("empty changes: %t, the same table: %t", changes.Empty(), before == after)
	}
	if before != after && after.Generation() != before.Generation()+1 {
		t.Fatalf("generation %d after %d", after.Generation(), before.Generation())
	}

	want, got := map[string]string{}, map[string]string{}
	for name, r := range was.Routes {
		if cmp.Diff(r, is.Routes[name], compareAddresses) != "" {
			want["route "+name] = ""
		}
		for _, b := range r.Backends {
			if now := findBackend(is.Routes[name].Backends, b.Service); now == nil || !now.Equal(b.Endpoints) {
				want["cluster "+b.Cluster] = ""
			}
		}
	}
	for name, r := range is.Routes {
		if cmp.Diff(r, was.Routes[name], compareAddresses) != "" {
			want["route "+name] = ""
		}
		for _, b := range r.Backends {
			if findBackend(was.Routes[name].Backends, b.Service) == nil {
				want["cluster "+b.Cluster] = ""
			}
		}
	}
	for _, p := range was.Problems {
		if !slices.Contains(is.Problems, p) {
			want["resolved "+p.Object.String()+p.Message] = ""
		}
	}
	for _, p := range is.Problems {
		if !slices.Contains(was.Problems, p) {
			want["opened "+p.Object.String()+p.Message] = ""
		}
	}
	for _, c := range changes.Routes {
		got["route "+c.Name.String()] = ""
		if before.Route(c.Name) != c.Before || after.Route(c.Name) != c.After {
			t.Fatalf("the change of %v is not from the one table's route to the other's", c.Name)
		}
	}
	for _, c := range changes.Clusters {
		got["cluster "+c.Name] = ""
		if c.Before == nil && c.After == nil {
			t.Fatalf("the change of cluster %s is from nothing to nothing", c.Name)
		}
	}
	for _, p := range changes.Resolved {
		got["resolved "+p.Object.String()+p.Message] = ""
	}
	for _, p := range changes.Opened {
		got["opened "+p.Object.String()+p.Message] = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("changes (-by comparing +told):\n%s", diff)
	}

	// Envoy's part of a virtual host: its matches, and their routes without the
	// endpoints.
	touched := changes.VirtualHosts(after)
	for _, domain := range append(before.Domains(), after.Domains()...) {
		if envoyPart(before, domain) != envoyPart(after, domain) && !slices.Contains(touched, domain) {
			t.Fatalf("virtual host %s changed from\n%s to\n%s and is not among %v", domain, envoyPart(before, domain), envoyPart(after, domain), touched)
		}
	}
}

func envoyPart(table *Table, domain string) string {
	vh, _ := table.VirtualHost(domain, nil)
	var text strings.Builder
	for _, m := range vh.Matches {
		r := m.Route
		fmt.Fprintf(&text, "%s %#v ", m.PathPrefix, m.Headers)
		fmt.Fprintln(&text, r.Name, r.asked(), r.Split, deref(r.ResponseHeader), deref(r.ConditionWait))
	}
	return text.String()
}

// checkShares: a backend without usable endpoints has no share, the others have shares
// in the proportion asked for, and draining endpoints serve only if no backend with a
// weight has a ready one.
func checkShares(t *testing.T, r *Route) {
	t.Helper()
	ready, draining := false, false
	for i := range r.Backends {
		b := &r.Backends[i]
		ready = ready || b.Weight > 0 && len(b.Ready) > 0
		draining = draining || b.Weight > 0 && len(b.Draining) > 0
	}
	for i := range r.Backends {
		b := &r.Backends[i]
		want := uint32(0)
		if ready && len(b.Ready) > 0 || !ready && len(b.Draining) > 0 {
			want = b.Weight
		}
		if b.Share != want {
			t.Fatalf("%s has share %d, want %d: %+v", b.Cluster, b.Share, want, r.Backends)
		}
		if b.Share > 0 && len(b.Active()) == 0 {
			t.Fatalf("%s has a share and nowhere to send it", b.Cluster)
		}
	}
	if r.Cold() != (!ready && !draining) {
		t.Fatalf("%v: cold %t with %+v", r.Name, r.Cold(), r.Backends)
	}
}
