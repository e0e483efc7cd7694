package envoy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pires/go-proxyproto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// seen has the PROXY protocol headers of the connections to the fallback listener.
type seen struct {
	mu      sync.Mutex
	headers []*proxyproto.Header
}

// records returns the TLVs of each header.
func (s *seen) records(t testing.TB) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, h := range s.headers {
		tlvs, err := h.TLVs()
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, tlv := range tlvs {
			text = append(text, fmt.Sprintf("%#x=%s", tlv.Type, tlv.Value))
		}
		all = append(all, strings.Join(text, " "))
	}
	return all
}

// fallback serves a handler on a listener like the interceptor's, which takes no
// connection without a PROXY protocol header.
func fallback(t testing.TB, h http.Handler) (netip.AddrPort, *seen) {
	s := &seen{}
	address := serveOn(t, h, func(l net.Listener) net.Listener {
		return &proxyproto.Listener{
			Listener:   l,
			ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) { return proxyproto.REQUIRE, nil },
			ValidateHeader: func(h *proxyproto.Header) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.headers = append(s.headers, h)
				return nil
			},
		}
	})
	return address, s
}

// says answers with a name.
func says(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.Proto)
	})
}

func ask(t testing.TB, client *http.Client, address, host, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestFallbackByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	app := serve(t, says("app"))
	last, s := fallback(t, says("fallback"))
	w.service("up", routes.HTTP1, app)
	w.service("up-h2c", routes.H2C, app)
	w.service("empty", routes.HTTP1)
	w.service("empty-h2c", routes.H2C)
	w.service("dead", routes.HTTP1, refusing(t))
	for _, name := range []string{"up", "up-h2c", "empty", "empty-h2c", "dead"} {
		w.object(name, name, "", nil)
	}
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), []netip.AddrPort{last}))
	for _, tt := range []struct{ name, want, connection string }{
		{"up", "app HTTP/1.1", ""},
		{"up-h2c", "app HTTP/2.0", ""},
		{"empty", "fallback HTTP/1.1", "0xe0=demo/empty 0xe1=empty"},
		{"empty-h2c", "fallback HTTP/2.0", "0xe0=demo/empty-h2c 0xe1=empty-h2c"},
		// After a refused connection, Envoy tries once more, at the next priority.
		{"dead", "fallback HTTP/1.1", "0xe0=demo/dead 0xe1=dead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(s.records(t))
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			for range 5 {
				if code, body := ask(t, &http.Client{Transport: transport}, address, tt.name+".example.com", "/"); body != tt.want {
					t.Errorf("answered %d %q, want %q", code, body, tt.want)
				}
			}
			// A connection to the interceptor is kept as others are; Envoy has
			// one for each of its clients' connections.
			var want []string
			if tt.connection != "" {
				want = []string{tt.connection}
			}
			if diff := cmp.Diff(want, s.records(t)[before:], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("connections to the fallback (-want +got):\n%s", diff)
			}
		})
	}
}

// If the connection is refused, the request was not sent: Envoy tries once more, whatever
// the method is.
func TestRefusedConnectionByARealEnvoy(t *testing.T) {
	w := newWorld(t)
	last, _ := fallback(t, says("fallback"))
	w.service("dead", routes.HTTP1, refusing(t))
	w.object("dead", "dead", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), []netip.AddrPort{last}))
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: dead.example.com\r\nContent-Length: 5\r\n\r\nhello",
		"DELETE / HTTP/1.1\r\nHost: dead.example.com\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: dead.example.com\r\nContent-Length: 5\r\n\r\nhello",
	} {
		if got := exchangeRaw(t, address, request); got.Code != "200" {
			t.Errorf("answered %v for %q", got, request)
		}
	}
}

// The timeout for the response's header ends requests that an application does not
// answer, but none that the interceptor holds: it sends a 102, which no client sees.
// After the timeout Envoy tries a GET again, and tells the interceptor why.
func TestResponseHeaderTimeoutByARealEnvoy(t *testing.T) {
	const timeout = time.Second
	released := make(chan struct{})
	last, _ := fallback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(routes.SecondTryHeader) == "true" {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, "too late")
			return
		}
		w.WriteHeader(http.StatusProcessing)
		time.Sleep(3 * timeout) // longer than the timeout
		fmt.Fprintf(w, "held %s", r.Proto)
	}))
	app := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-released
			return
		}
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		time.Sleep(3 * timeout)
		_, _ = io.WriteString(w, "b")
	}))
	t.Cleanup(func() { close(released) })
	w := newWorld(t)
	for name, protocol := range map[string]routes.Protocol{"": routes.HTTP1, "-h2c": routes.H2C} {
		w.service("app"+name, protocol, app)
		w.service("empty"+name, protocol)
		for _, service := range []string{"app", "empty"} {
			w.object(service+name, service+name, "", func(o *httpv1alpha1.HTTPScaledObject) {
				o.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: ptr(timeout.String())}
			})
		}
	}
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), []netip.AddrPort{last}))
	for _, tt := range []struct {
		host, path string
		code       int
		body       string
	}{
		{"app", "/hang", http.StatusGatewayTimeout, "too late"},
		{"app-h2c", "/hang", http.StatusGatewayTimeout, "too late"},
		{"app", "/slow-body", http.StatusOK, "ab"},
		{"app-h2c", "/slow-body", http.StatusOK, "ab"},
		{"empty", "/", http.StatusOK, "held HTTP/1.1"},
		{"empty-h2c", "/", http.StatusOK, "held HTTP/2.0"},
	} {
		t.Run(tt.host+tt.path, func(t *testing.T) {
			t.Parallel()
			code, body := ask(t, http.DefaultClient, address, tt.host+".example.com", tt.path)
			if code != tt.code || body != tt.body {
				t.Errorf("answered %d %q, want %d %q", code, body, tt.code, tt.body)
			}
		})
	}
}
