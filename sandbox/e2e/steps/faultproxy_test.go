package steps

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// faultProxy stands between a controller, with its plugins, and the API server. It
// kills them at one of their writes: before the write reaches the API server, or when
// it is done but not yet answered. From then on the proxy forwards nothing until
// reopen. Writes of Events are not counted, since they come at any time.
type faultProxy struct {
	// URL is that of the proxy, which the controller takes for the API server.
	URL string

	forward http.Handler
	kill    func()

	mu     sync.Mutex
	closed bool
	// at is the number of the write at which to kill, and after says whether to forward
	// that write first.
	at     int
	after  bool
	writes []string // since killAt
}

// newFaultProxy serves a proxy until the test ends. Requests are made with the rights of the
// controller's ServiceAccount.
func newFaultProxy(t *testing.T, c *e2etest.Cluster, kill func()) *faultProxy {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + e2etest.ControllerNamespace + ":argo-rollouts",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + e2etest.ControllerNamespace, "system:authenticated"},
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{kill: kill, forward: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport,
		// The controller that sent the request was killed.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	p.URL = e2etest.Serve(t, p)
	return p
}

// ServeHTTP forwards a request, or kills the controller.
func (p *faultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forward, kill := p.judge(r)
	if forward && !kill {
		p.forward.ServeHTTP(w, r)
		return
	}
	if forward {
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	if kill {
		p.kill()
	}
	panic(http.ErrAbortHandler)
}

func (p *faultProxy) judge(r *http.Request) (forward, kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, false
	}
	_, path, _ := strings.Cut(r.URL.Path, "/namespaces/")
	if r.Method == http.MethodGet || strings.Contains(path, "/events") {
		return true, false
	}
	p.writes = append(p.writes, r.Method+" "+path)
	if len(p.writes) != p.at {
		return true, false
	}
	p.closed = true
	return p.after, true
}

// killAt lets the n-th write from now on kill the controller: after it is done if after
// is true, otherwise before.
func (p *faultProxy) killAt(n int, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.after, p.writes = n, after, nil
}

// hit tells whether the controller was killed since killAt, and returns the writes
// since then.
func (p *faultProxy) hit() (bool, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.writes) >= p.at, slices.Clone(p.writes)
}

// reopen has the proxy forward again.
func (p *faultProxy) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}
