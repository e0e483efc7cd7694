package routes

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// This is a slow and obvious model of matching: every object is checked against the
// request, and the objects that match are sorted.

type request struct {
	host, path string
	header     map[string][]string
}

func (r request) String() string { return fmt.Sprintf("%q %q %v", r.host, r.path, r.header) }

type candidate struct {
	exact    bool
	wildcard int // bytes of the pattern
	prefix   int // bytes of the prefix
	headers  bool
	route    *Route
}

var portOfHost = regexp.MustCompile(`:[^:\]]*$`)

// modelLookup returns the route of a request. crowds tells whether the proxy does not
// serve objects that are crowded out.
func modelLookup(routes []*Route, owned, crowds bool, r request) *Route {
	host := portOfHost.ReplaceAllString(r.host, "")
	host = strings.TrimSuffix(host, ".")
	host = strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c - 'A' + 'a'
		}
		return c
	}, host)
	var all []candidate
	for _, route := range routes {
		if route.spec.match.leftOut || crowds && route.spec.match.crowded {
			continue
		}
		if len(route.Headers()) > 0 && !slices.ContainsFunc(route.Headers(), func(h Header) bool { return modelHeader(h, r.header) }) {
			continue
		}
		for _, pattern := range route.Hosts() {
			ending, wild := strings.CutPrefix(pattern, "*")
			if wild && !strings.HasSuffix(host, ending) || wild && ending != "" && host == ending || !wild && host != pattern {
				continue
			}
			if owned && !modelOwns(routes, route, pattern) {
				continue
			}
			for _, prefix := range route.PathPrefixes() {
				segments := strings.TrimSuffix(prefix, "/")
				if r.path == segments && segments != "" || strings.HasPrefix(r.path, segments+"/") {
					all = append(all, candidate{!wild, len(pattern), len(prefix), len(route.Headers()) > 0, route})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(
			compareFalseLast(a.exact, b.exact),
			-cmp.Compare(a.wildcard, b.wildcard),
			-cmp.Compare(a.prefix, b.prefix),
			compareFalseLast(a.headers, b.headers),
			a.route.spec.match.created.Compare(b.route.spec.match.created),
			cmp.Compare(a.route.Name.Namespace, b.route.Name.Namespace),
			cmp.Compare(a.route.Name.Name, b.route.Name.Name),
		)
	}).route
}

// modelOwns tells whether the oldest object that names a host lets the route's object
// have it.
func modelOwns(routes []*Route, route *Route, pattern string) bool {
	var owner *matcher
	for _, r := range routes {
		if m := r.spec.match; slices.Contains(r.Hosts(), pattern) && (owner == nil || compareAge(m, owner) < 0) {
			owner = m
		}
	}
	return owner.name.Namespace == route.Name.Namespace || slices.Contains(owner.allowed, "*") || slices.Contains(owner.allowed, route.Name.Namespace)
}

func compareFalseLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func modelHeader(h Header, header map[string][]string) bool {
	for name, values := range header {
		if strings.EqualFold(name, h.Name) && len(values) > 0 && (h.Value == "" || slices.Contains(values, h.Value)) {
			return true
		}
	}
	return false
}

// envoyLookup chooses as Envoy does: one virtual host, and in it the first match.
func envoyLookup(t *Table, namespaces Namespaces, r request) *Route {
	host := CanonicalHost(r.host)
	best := VirtualHost{}
	for vh := range t.VirtualHosts(namespaces) {
		ending, wild := strings.CutPrefix(vh.Domain, "*")
		switch {
		case !wild && vh.Domain == host:
			best = vh
		case wild && (ending == "" || strings.HasSuffix(host, ending) && host != ending):
			if best.Domain == "" || strings.HasPrefix(best.Domain, "*") && len(best.Domain) < len(vh.Domain) {
				best = vh
			}
		}
	}
	for _, m := range best.Matches {
		if m.PathPrefix == "/" && !strings.HasPrefix(r.path, "/") {
			continue
		}
		if m.PathPrefix != "/" && r.path != m.PathPrefix && !strings.HasPrefix(r.path, m.PathPrefix+"/") {
			continue
		}
		if len(m.Headers) == 0 || slices.ContainsFunc(m.Headers, func(h Header) bool { return modelHeader(h, r.header) }) {
			return m.Route
		}
	}
	return nil
}

// Small alphabets, so that objects get in each other's way.
var (
	someHosts    = []string{"*", "*.com", "*.a.com", "*.b.a.com", "a.com", "b.a.com", "c.b.a.com", "B.A.com:80", "com", "[::1]", "10.0.0.1"}
	somePrefixes = []string{"/", "/x", "/x/", "/x/y", "/xy", "/x/y/z", "//x", "/x//y", "/%2F"}
	someHeaders  = []httpv1alpha1.Header{{Name: "H1", Value: "1"}, {Name: "h1", Value: "2"}, {Name: "H1", Value: ""}, {Name: "H2", Value: "1"}, {Name: "H2", Value: "1,2"}}

	someRequestHosts  = []string{"", "com", "a.com", "A.COM:8080", "a.com.", "b.a.com", "c.b.a.com", "d.c.b.a.com", "z.a.com", ".a.com", "x..a.com", "q.com", "org", "[::1]:80", "10.0.0.1", "0.0.1"}
	someRequestPaths  = []string{"/", "/x", "/x/", "/x/y", "/x/y/z/w", "/xy", "/xyz", "//x/y", "/x//y", "/x//", "/%2F/", "/%2f", "", "x", "*", "/x/../xy"}
	someRequestHeader = []map[string][]string{nil, {"H1": {"1"}}, {"H1": {"2"}, "H2": {"1"}}, {"H1": {"3"}}, {"H2": {"1", "2"}}, {"H1": {}}}
)

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func pickSome[T any](random *rand.Rand, from []T, most int) []T {
	some := make([]T, random.IntN(most+1))
	for i := range some {
		some[i] = pick(random, from)
	}
	return some
}

func randomObject(random *rand.Rand, namespace, name string) *httpv1alpha1.HTTPScaledObject {
	port := int32(80)
	annotations := map[string]string{}
	if random.IntN(3) == 0 {
		annotations[AllowedNamespacesAnnotation] = pick(random, []string{"n", "n-1, n2", "*", "no such, n2", ""})
	}
	if random.IntN(3) == 0 {
		annotations[AccessLogAnnotation] = pick(random, []string{"true", "false", ""})
	}
	return &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.Time{Time: time.Unix(int64(random.IntN(4)), 0)}, Annotations: annotations,
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          pickSome(random, someHosts, 3),
			PathPrefixes:   pickSome(random, somePrefixes, 3),
			Headers:        pickSome(random, someHeaders, 2),
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "s1", Port: &port},
		},
	}
}

// FuzzLookup: the table, the model and Envoy's way through the virtual hosts
// give every request to the same object.
func FuzzLookup(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed, "a.com", "/x")
	}
	f.Add(uint64(1), "a.com:80:", "/x/%2f?y")
	f.Add(uint64(2), "]:a.com.", "x")
	f.Fuzz(func(t *testing.T, seed uint64, host, path string) {
		random := rand.New(rand.NewPCG(seed, 0))
		policy := randomPolicy(random)
		b := NewBuilderOf(policy)
		for i := range 1 + random.IntN(12) {
			b.SetHTTPScaledObject(randomObject(random, pick(random, []string{"n", "n2", "n-1"}), fmt.Sprint("o", i)))
		}
		table, _ := b.Commit()
		all := slices.Collect(table.Routes())
		fleet := Namespaces{"n": true, "n-1": true}
		kept := slices.DeleteFunc(slices.Clone(all), func(r *Route) bool { return !fleet.HasObject(r.Name) })
		checkBudget(t, policy, all)
		for i := range 60 {
			r := request{pick(random, someRequestHosts), pick(random, someRequestPaths), pick(random, someRequestHeader)}
			if i%3 == 0 {
				r.host = host
			}
			if i%5 == 0 {
				r.path = path
			}
			want := modelLookup(all, policy.HostOwnership, true, r)
			if got := table.Lookup(r.host, r.path, r.header); got != want {
				t.Fatalf("%v goes to %v, by the model to %v", r, nameOf(got), nameOf(want))
			}
			if got := envoyLookup(table, nil, r); got != want {
				t.Fatalf("%v goes to %v in Envoy, by the model to %v", r, nameOf(got), nameOf(want))
			}
			if got, want := envoyLookup(table, fleet, r), modelLookup(kept, policy.HostOwnership, policy.roomy() < 2, r); got != want {
				t.Fatalf("%v goes to %v in an Envoy without n2, by the model to %v", r, nameOf(got), nameOf(want))
			}
		}
		checkMatchLimit(t, policy, b)
		checkShadows(t, table, all, policy.HostOwnership)
		checkReachable(t, table)
	})
}

// randomPolicy returns a policy with budgets so small that small objects may exceed
// them.
func randomPolicy(random *rand.Rand) Policy {
	most := 1 + random.IntN(8)
	return Policy{HostOwnership: random.IntN(2) == 0, MaxMatchesPerNamespace: 1 + random.IntN(60), MaxWildcardMatchesPerNamespace: most, MaxWildcardMatches: most + random.IntN(20)}
}

// checkBudget: a host below a wildcard lists no more matches of that wildcard and the
// wildcards above it than one namespace, or all together, may have; the wildcard * is
// counted separately. No object is crowded out where all namespaces have room.
func checkBudget(t *testing.T, policy Policy, all []*Route) {
	t.Helper()
	matches := make(map[string]int)
	for _, r := range all {
		if matches[r.Name.Namespace] += r.spec.match.total; matches[r.Name.Namespace] > policy.MaxMatchesPerNamespace {
			t.Fatalf("the objects of %s that are served have %d matches, above %d", r.Name.Namespace, matches[r.Name.Namespace], policy.MaxMatchesPerNamespace)
		}
	}
	listed := make(map[string]int)
	for _, lists := range all {
		for _, wildcard := range lists.Hosts() {
			if !strings.HasPrefix(wildcard, "*") {
				continue
			}
			above := []string{wildcard}
			if wildcard != anyHost {
				above = append(above, slices.DeleteFunc(wider(wildcard), func(host string) bool { return host == anyHost })...)
			}
			clear(listed)
			for _, r := range all {
				m := r.spec.match
				if m.leftOut || !slices.ContainsFunc(above, func(host string) bool { return slices.Contains(m.hosts, host) }) {
					continue
				}
				listed[m.name.Namespace] += m.matches()
				if !m.crowded {
					listed["all"] += m.matches()
				}
			}
			for whose, matches := range listed {
				most := policy.MaxWildcardMatchesPerNamespace
				if whose == "all" {
					most = policy.MaxWildcardMatches
				}
				if matches > most {
					t.Fatalf("a host below %s lists %d matches of %s, above %d", wildcard, matches, whose, most)
				}
			}
		}
		if m := lists.spec.match; m.crowded && policy.roomy() >= 3 {
			t.Fatalf("%v is crowded out, though there is room for all three namespaces", m.name)
		}
	}
}

// checkMatchLimit: of the objects of each namespace, oldest first, those are served that
// have room beside those before them.
func checkMatchLimit(t *testing.T, policy Policy, b *Builder) {
	t.Helper()
	oldestFirst := slices.SortedFunc(maps.Values(b.objects), func(x, y *object) int {
		return cmp.Or(x.checked.spec.match.created.Compare(y.checked.spec.match.created), cmp.Compare(x.name.Name, y.name.Name))
	})
	used, asked := make(map[string]int), make(map[string]int)
	for _, o := range oldestFirst {
		m := o.checked.spec.match
		matches := len(m.hosts) * len(m.prefixes) * max(1, len(m.headers))
		asked[o.name.Namespace] += matches
		fits := used[o.name.Namespace]+matches <= policy.MaxMatchesPerNamespace
		if fits {
			used[o.name.Namespace] += matches
		}
		told := slices.ContainsFunc(b.Table().ProblemsOf(o.name), func(p Problem) bool { return strings.Contains(p.Message, "--max-matches-per-namespace") })
		if told == fits || !fits && b.Table().Route(o.name) != nil {
			t.Fatalf("%v of %d matches fits: %t, told that it does not: %t, route: %v", o.name, matches, fits, told, b.Table().Route(o.name))
		}
	}
	if got, want := b.MostMatches(), slices.Max(slices.Collect(maps.Values(asked))); got != want {
		t.Fatalf("the busiest namespace asks for %d matches, told are %d", want, got)
	}
}

func nameOf(r *Route) string {
	if r == nil {
		return "nobody"
	}
	return r.Name.String()
}

// checkShadows: an object has the problem Shadowed exactly if, at each of its hosts and
// prefixes, the model gives every request with one of its headers, and that header
// alone, to another object.
func checkShadows(t *testing.T, table *Table, all []*Route, owned bool) {
	t.Helper()
	for _, route := range all {
		if slices.ContainsFunc(table.ProblemsOf(route.Name), func(p Problem) bool { return owned && p.Reason == HostNotOwned || p.Reason == OverBudget }) {
			continue // it has that problem instead
		}
		shadowed := true
		for _, pattern := range route.Hosts() {
			for _, prefix := range route.PathPrefixes() {
				// Names and segments that no other object has, so that only objects
				// that ask for the same can take the request.
				r := request{host: strings.Replace(pattern, "*", "nobody", 1), path: prefix}
				headers := []map[string][]string{nil}
				if len(route.Headers()) > 0 {
					headers = nil
				}
				for _, h := range route.Headers() {
					value := h.Value
					if value == "" {
						value = "nothing"
					}
					headers = append(headers, map[string][]string{strings.ToUpper(h.Name): {value}})
				}
				for _, r.header = range headers {
					if modelLookup(all, owned, true, r) == route {
						shadowed = false
					}
				}
			}
		}
		told := slices.ContainsFunc(table.ProblemsOf(route.Name), func(p Problem) bool { return p.Reason == Shadowed })
		if told != shadowed {
			t.Fatalf("%v: told to be shadowed: %t, by the model: %t", route.Name, told, shadowed)
		}
	}
}

// checkReachable: no virtual host lists a match twice, or after a match without headers
// that takes all of its requests.
func checkReachable(t *testing.T, table *Table) {
	t.Helper()
	for vh := range table.VirtualHosts(nil) {
		var taken []string
		for i, m := range vh.Matches {
			for _, before := range vh.Matches[:i] {
				if before.PathPrefix == m.PathPrefix && before.Route == m.Route {
					t.Fatalf("%s lists %s of %v twice", vh.Domain, m.PathPrefix, m.Route.Name)
				}
			}
			for _, prefix := range taken {
				if prefix == "/" || m.PathPrefix == prefix || strings.HasPrefix(m.PathPrefix, prefix+"/") {
					t.Fatalf("%s lists %s after %s, which takes all of its requests", vh.Domain, m.PathPrefix, prefix)
				}
			}
			if len(m.Headers) == 0 {
				taken = append(taken, m.PathPrefix)
			}
		}
	}
}
