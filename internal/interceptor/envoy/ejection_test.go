package envoy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// ejectionPatience is how long an ejection may take to come, or to end.
const ejectionPatience = 2 * time.Minute

// ejecting is an Envoy with one backend, app, and a fallback that counts.
type ejecting struct {
	t         *testing.T
	envoy     *envoytest.Envoy
	address   string
	handed    *atomic.Int64 // requests to the fallback
	transport *http.Transport
}

func newEjecting(t *testing.T, change func(*httpv1alpha1.HTTPScaledObject), endpoints ...netip.AddrPort) *ejecting {
	t.Helper()
	e := &ejecting{t: t, handed: new(atomic.Int64), transport: &http.Transport{}}
	last, _ := fallback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.handed.Add(1)
		says("fallback").ServeHTTP(w, r)
	}))
	w := newWorld(t)
	w.service("app", routes.HTTP1, endpoints...)
	w.object("app", "app", "", change)
	e.envoy, e.address = runEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), []netip.AddrPort{last}))
	t.Cleanup(e.transport.CloseIdleConnections)
	return e
}

func (e *ejecting) stat(name string) int { return e.envoy.Stat("cluster.demo/app/app." + name) }

// get sends one request, and returns the body of its answer, or a code that is not 200.
func (e *ejecting) get() string {
	e.t.Helper()
	code, body := ask(e.t, &http.Client{Transport: e.transport}, e.address, "app.example.com", "/")
	if code != http.StatusOK {
		return http.StatusText(code)
	}
	return body
}

// until sends requests until a condition holds. One of the named applications has to
// answer each.
func (e *ejecting) until(what string, is func() bool, by ...string) {
	e.t.Helper()
	for deadline := time.Now().Add(ejectionPatience); !is(); {
		if time.Now().After(deadline) {
			e.t.Fatalf("in vain for %v: %s; there were %d ejections", ejectionPatience, what, e.stat("outlier_detection.ejections_enforced_total"))
		}
		e.answered(1, by...)
	}
}

// answered sends n requests, each of which one of the named applications has to answer.
func (e *ejecting) answered(n int, by ...string) {
	e.t.Helper()
	for range n {
		got := e.get()
		known := false
		for _, name := range by {
			known = known || got == name
		}
		if !known {
			e.t.Fatalf("answered %q; expected one of %q", got, by)
		}
	}
}

// whileEjected waits until, with n endpoints ejected, 100 requests in a row cause no
// failed connection, and handed of them come to the fallback. Envoy's workers learn of an
// ejection up to a second later.
func (e *ejecting) whileEjected(n, handed int, by ...string) {
	e.t.Helper()
	var failed, came int
	for deadline := time.Now().Add(ejectionPatience); time.Now().Before(deadline); {
		e.until("an ejection", func() bool { return e.stat("outlier_detection.ejections_active") == n }, append(by, "fallback HTTP/1.1")...)
		ejections := e.stat("outlier_detection.ejections_enforced_total")
		failed, came = e.stat("upstream_cx_connect_fail"), int(e.handed.Load())
		e.answered(100, append(by, "fallback HTTP/1.1")...)
		failed, came = e.stat("upstream_cx_connect_fail")-failed, int(e.handed.Load())-came
		same := e.stat("outlier_detection.ejections_active") == n && e.stat("outlier_detection.ejections_enforced_total") == ejections
		if same && failed == 0 && came == handed {
			return
		}
	}
	e.t.Fatalf("with %d endpoints ejected, %d connections could not be made, and %d of 100 requests came to the fallback; expected 0 and %d", n, failed, came, handed)
}

// reserve returns an address that refuses connections, and that no other socket can take;
// listen serves a handler there.
func reserve(t *testing.T) (address netip.AddrPort, listen func(http.Handler)) {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(socket), "reserved")
	t.Cleanup(func() { _ = file.Close() })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	at := name.(*syscall.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), func(h http.Handler) {
		if err := syscall.Listen(socket, 128); err != nil {
			t.Fatal(err)
		}
		l, err := net.FileListener(file)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	}
}

// An endpoint that cannot be connected to gets no requests for a while. The other
// endpoint gets them all: none goes to the fallback. Once the first endpoint can be
// connected to, it gets its share again. Clients notice nothing.
func TestEnvoyEjectsAnEndpointThatCannotBeConnectedTo(t *testing.T) {
	dead, listen := reserve(t)
	e := newEjecting(t, nil, dead, serve(t, says("alive")))
	e.whileEjected(1, 0, "alive HTTP/1.1")
	var back atomic.Int64
	listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		back.Add(1)
		says("back").ServeHTTP(w, r)
	}))
	e.until("the endpoint in use again", func() bool { return back.Load() > 0 }, "alive HTTP/1.1", "back HTTP/1.1")
}

// With all of its endpoints ejected, a backend's requests go to the fallback at once.
func TestEnvoyHandsOverABackendWhoseEndpointsAreEjected(t *testing.T) {
	first, _ := reserve(t)
	second, _ := reserve(t)
	e := newEjecting(t, nil, first, second)
	e.whileEjected(2, 100, "fallback HTTP/1.1")
}

// No answer of an application ejects an endpoint: a bad canary stays visible. Nor does a
// late answer, or a connection that is cut.
func TestEnvoyEjectsNoEndpointForItsAnswers(t *testing.T) {
	const requests = 60
	cut := func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		requests int
	}{
		"500":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, requests},
		"503":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, requests},
		"cut":  {cut, requests},
		"late": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 4 * ejectAfter},
	} {
		t.Run(name, func(t *testing.T) {
			var bad atomic.Int64
			counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				bad.Add(1)
				tt.answer(w, r)
			})
			e := newEjecting(t, func(o *httpv1alpha1.HTTPScaledObject) {
				o.Spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: ptr("100ms")}
			}, serve(t, counted), serve(t, says("good")))
			for range tt.requests {
				e.get()
			}
			if n := e.stat("outlier_detection.ejections_enforced_total"); n != 0 {
				t.Errorf("%d ejections", n)
			}
			if n := int(bad.Load()); n < tt.requests/2-1 {
				t.Errorf("the bad endpoint had %d of %d requests; expected its half", n, tt.requests)
			}
		})
	}
}
