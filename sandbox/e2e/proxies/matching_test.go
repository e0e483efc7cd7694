package proxies

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficSameAnswers sends the same requests through both proxies, some hundreds
// that are made of the hosts, paths and headers of HTTPScaledObjects that overlap in
// every possible way: each has to get the same answer, of the same object, from both.
// Then it does so again with two more objects, which take any host.
func TestTrafficSameAnswers(t *testing.T) {
	n := e2etest.NewNamespace(t)
	proxies := []traffictest.Proxy{traffictest.Embedded(t, n), traffictest.Envoy(t, n)}
	clients := []*http.Client{proxies[0].Client(t), proxies[1].Client(t)}
	domain := n.Name + ".test"
	served := map[string]bool{}
	apply := func(objects ...traffictest.Object) {
		t.Helper()
		for _, o := range objects {
			// Each object has a Service of its own, so that an answer shows which
			// object it is from.
			o.Service = "s-" + o.Name
			url := e2etest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, o.Name+" "+r.Method+" "+r.RequestURI)
			}))
			n.ServiceAt(o.Service, traffictest.Addr(strings.TrimPrefix(url, "http://")), "")
			for i := range o.Hosts {
				o.Hosts[i] = strings.ReplaceAll(o.Hosts[i], "DOMAIN", domain)
			}
			n.Apply(o.Manifest())
		}
		for _, p := range proxies {
			p.AwaitConfigured(t, "app")
			for _, o := range objects {
				if !strings.HasPrefix(o.Name, "shadowed") {
					p.AwaitConfigured(t, o.Name)
				}
			}
		}
	}
	compare := func(seed uint64) {
		t.Helper()
		random := rand.New(rand.NewPCG(seed, 4))
		for range requests {
			r := randomRequest(random, domain)
			got, want := r.send(t, clients[0]), r.send(t, clients[1])
			name, _, _ := strings.Cut(got, " ")
			served[name] = true
			if got != want {
				t.Errorf("%s: %s answers %.120q, %s answers %.120q", r, proxies[0].Name, got, proxies[1].Name, want)
			}
		}
	}
	objects := []traffictest.Object{
		{Name: "app", Hosts: []string{"app.DOMAIN"}},
		{Name: "prefixes", Hosts: []string{"app.DOMAIN", "b.a.DOMAIN"}, Prefixes: []string{"/foo", "/foo/bar/", "/x"}},
		{Name: "deeper", Hosts: []string{"app.DOMAIN"}, Prefixes: []string{"/foo/bar/baz"}},
		{Name: "header", Hosts: []string{"app.DOMAIN"}, Prefixes: []string{"/foo"}, Headers: []traffictest.Header{{Name: "X-Canary", Value: "yes"}, {Name: "x-any"}}},
		{Name: "header-alone", Hosts: []string{"h.DOMAIN"}, Headers: []traffictest.Header{{Name: "X-Canary", Value: "yes"}}},
		{Name: "star", Hosts: []string{"*.DOMAIN"}, Prefixes: []string{"/foo", "/star"}},
		{Name: "long-star", Hosts: []string{"*.a.DOMAIN"}, Prefixes: []string{"/star", "/x/y"}},
		{Name: "star-header", Hosts: []string{"*.a.DOMAIN"}, Headers: []traffictest.Header{{Name: "X-Canary", Value: "no"}}},
		{Name: "shadowed", Hosts: []string{"app.DOMAIN"}},
		{Name: "shadowed-prefix", Hosts: []string{"app.DOMAIN"}, Prefixes: []string{"/foo/"}},
	}
	apply(objects...)
	compare(1)
	if !served["404"] {
		t.Error("no request was for nobody")
	}
	apply(traffictest.Object{Name: "any", Prefixes: []string{"/foo", "/any"}},
		traffictest.Object{Name: "any-header", Hosts: []string{"*"}, Headers: []traffictest.Header{{Name: "X-Any"}}})
	compare(2)
	for _, name := range []string{
		"app", "prefixes", "deeper", "header", "header-alone", "star", "long-star", "star-header", "any", "any-header",
	} {
		if !served[name] {
			t.Errorf("no request was answered by %s", name)
		}
	}
	for name := range served {
		if strings.HasPrefix(name, "shadowed") {
			t.Errorf("%s, which others came before, has answered", name)
		}
	}
}

// requests is how many are generated at a time.
const requests = 500

// generated is a request.
type generated struct {
	method, host, target string
	header               http.Header
}

func randomRequest(r *rand.Rand, domain string) generated {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	host := pick("app", "app", "app", "APP", "b.a", "c.a", "d.c.a", "h", "other", "app.app", "a", "-") + "." + domain
	switch r.IntN(12) {
	case 0:
		host = domain
	case 1:
		host = "elsewhere.test"
	case 2:
		host += "."
	case 3:
		host += ":8080"
	case 4:
		host += ".:80"
	}
	var path strings.Builder
	for range r.IntN(5) {
		path.WriteString("/" + pick("foo", "foo", "foo/bar/baz", "bar", "baz", "star", "any", "x", "y", "foobar", "", ".", "..", "%2F", "f%6fo", "FOO", "a;b", "%C3%A9"))
	}
	if path.Len() == 0 || r.IntN(4) == 0 {
		path.WriteString("/")
	}
	target := path.String()
	if r.IntN(4) == 0 {
		target += pick("?", "?q=/foo", "?a=b&c=%20")
	}
	g := generated{method: pick("GET", "GET", "POST", "DELETE", "OPTIONS"), host: host, target: target, header: http.Header{}}
	for range r.IntN(3) {
		switch r.IntN(5) {
		case 0, 1:
			g.header.Add("X-Canary", pick("yes", "yes", "no", "Yes", "yes ", ""))
		case 2:
			g.header.Add("x-any", pick("", "1"))
		case 3:
			g.header.Add("X-Other", "yes")
		}
	}
	return g
}

func (g generated) String() string {
	return fmt.Sprintf("%s %s%s %v", g.method, g.host, g.target, g.header)
}

// send returns the answer of an application, or the status where it is not 200.
func (g generated) send(t *testing.T, client *http.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, g.method, "http://proxy.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	// The target is sent unchanged.
	request.URL.Opaque = g.target
	if strings.HasPrefix(g.target, "//") {
		request.URL.Opaque = "http://" + g.host + g.target
	}
	request.Host, request.Header = g.host, g.header
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", g, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", g, err)
	}
	if response.StatusCode == http.StatusOK {
		return string(body)
	}
	return fmt.Sprint(response.StatusCode)
}
