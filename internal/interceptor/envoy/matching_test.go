package envoy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// There are few values to choose from, so that objects overlap.
var (
	someHosts    = []string{"*", "*.com", "*.a.com", "*.b.a.com", "a.com", "b.a.com", "c.b.a.com", "B.A.com:80", "com", "[::1]", "10.0.0.1"}
	somePrefixes = []string{"/", "/x", "/x/", "/x/y", "/xy", "/x/y/z", "//x", "/x//y", "/%2F", "/x;y", "/é"}
	someHeaders  = []httpv1alpha1.Header{{Name: "H1", Value: "1"}, {Name: "h1", Value: "2"}, {Name: "H1", Value: ""}, {Name: "H2", Value: "1"}, {Name: "H2", Value: "1,2"}}

	someRequestHosts = []string{
		"com", "a.com", "A.COM:8080", "a.com.", "b.a.com", "c.b.a.com", "d.c.b.a.com", "z.a.com", ".a.com", "x..a.com", "q.com", "org",
		"[::1]:80", "[::1]", "10.0.0.1", "10.0.0.1:80", "0.0.1", "a.com.:80", "xn--a.com", "a_b.com", "a.com:",
	}
	someRequestTargets = []string{
		"/", "/x", "/x/", "/x?/y", "/x/y", "/x/y/z/w", "/xy", "/xyz", "//x/y", "/x//y", "/x//", "/%2F/", "/%2f", "/x/../xy", "/x/./y", "/x%2Fy",
		"/x;y/z", "/X", "/x%00", "/x?", "http://a.com/x/y", "http://b.a.com",
	}
	someRequestHeaders = []http.Header{nil, {"H1": {"1"}}, {"H1": {"2"}, "H2": {"1"}}, {"H1": {"3"}}, {"H2": {"1", "2"}}, {"H1": {""}}, {"H2": {"1,2"}}}
)

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func pickSome[T any](random *rand.Rand, from []T, most int) []T {
	some := make([]T, random.IntN(most+1))
	for i := range some {
		some[i] = pick(random, from)
	}
	return some
}

// A real Envoy gives each request to the object that the table gives it to.
func TestEnvoyMatchesAsTheTable(t *testing.T) {
	const objects = 12
	var apps [objects]netip.AddrPort
	for i := range apps {
		apps[i] = serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "demo/o%d", i) }))
	}
	answered := map[string]int{}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t)
		for i := range objects {
			name := fmt.Sprint("o", i)
			w.service(name, routes.HTTP1, apps[i])
			w.object(name, name, "", func(o *httpv1alpha1.HTTPScaledObject) {
				o.CreationTimestamp = metav1.Time{Time: time.Unix(int64(random.IntN(4)), 0)}
				o.Spec.Hosts = pickSome(random, someHosts, 2)
				if seed%3 == 0 && len(o.Spec.Hosts) == 0 {
					o.Spec.Hosts = []string{"a.com"} // otherwise nearly every request matches an object
				}
				o.Spec.PathPrefixes = pickSome(random, somePrefixes, 3)
				o.Spec.Headers = pickSome(random, someHeaders, 2)
			})
		}
		table, _ := w.builder.Commit() // some objects are shadowed, which is a problem
		address := startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil))
		c := dialRaw(t, address)
		for range 300 {
			host, target, header := pick(random, someRequestHosts), pick(random, someRequestTargets), pick(random, someRequestHeaders)
			want := "nobody"
			seenHost := host
			if rest, absolute := strings.CutPrefix(target, "http://"); absolute {
				seenHost, _, _ = strings.Cut(rest, "/") // RFC 9112, 3.2.2
			}
			if r := table.Lookup(seenHost, routes.PathOf(target), header); r != nil {
				want = r.Name.String()
			}
			answered[want]++
			code, got := c.ask(host, target, header)
			switch {
			case code == http.StatusNotFound && strings.HasPrefix(got, "no HTTPScaledObject is for"):
				got = "nobody"
			case code == http.StatusBadRequest:
				t.Errorf("seed %d: Envoy refuses %q %q %v", seed, host, target, header)
			}
			if got != want {
				t.Errorf("seed %d: %q %q %v goes to %q (%d), by the table to %s", seed, host, target, header, got, code, want)
			}
		}
	}
	if answered["nobody"] < 100 || len(answered) < objects+1 {
		t.Errorf("the requests show little: by the table they go to %v", answered)
	}
}

// rawClient sends hosts, targets and headers unchanged.
type rawClient struct {
	t       *testing.T
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func dialRaw(t *testing.T, address string) *rawClient {
	c := &rawClient{t: t, address: address}
	t.Cleanup(c.close)
	return c
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *rawClient) ask(host, target string, header http.Header) (int, string) {
	c.t.Helper()
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			c.t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "GET %s HTTP/1.1\r\nHost: %s\r\n", target, host)
	for name, values := range header {
		for _, value := range values {
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
		}
	}
	text.WriteString("\r\n")
	if _, err := io.WriteString(c.conn, text.String()); err != nil {
		c.t.Fatal(err)
	}
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("%q %q: %v", host, target, err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.Close {
		c.close()
	}
	return res.StatusCode, string(body)
}
