package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// invoke runs a subcommand as from a shell, and returns what it prints.
func invoke(args ...string) (string, error) {
	cmd := command(func(string) (string, bool) { return "", false })
	cmd.SetArgs(args)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.Execute()
	return out.String(), err
}

func TestVersion(t *testing.T) {
	if out, err := invoke("version"); err != nil || !strings.HasPrefix(out, "interceptor dev (commit unknown, go1.") {
		t.Errorf("%q %v", out, err)
	}
}

func TestRoutesOfARunningInterceptor(t *testing.T) {
	p := proxy.New(proxy.DefaultSettings(), slog.New(slog.DiscardHandler))
	port := int32(80)
	builder := routes.NewBuilder()
	builder.SetHTTPScaledObject(&httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"},
		Spec:       httpv1alpha1.HTTPScaledObjectSpec{Hosts: []string{"app.test"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port}},
	})
	table, _ := builder.Commit()
	p.SetTable(table)
	// Problems that the table does not know are shown, too.
	recorder, err := events.New(&rest.Config{Host: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	object := types.NamespacedName{Namespace: "demo", Name: "app"}
	recorder.Update(nil, routes.Changes{Opened: append(p.Table().Problems(), routes.Problem{Object: object, Reason: watch.Unreadable})})
	recorder.Update(nil, routes.Changes{Opened: []routes.Problem{{Object: object, Reason: xds.RefusedByEnvoy}}})
	admin := httptest.NewServer(p.Admin(recorder.Problems, alive))
	defer admin.Close()
	for _, tc := range []struct {
		args []string
		says string
	}{
		{nil, "NAMESPACE"},
		{nil, "demo/app: UnknownService"},
		{nil, "demo/app: Unreadable"},
		{nil, "demo/app: RefusedByEnvoy"},
		{[]string{"-o", "json"}, `"service": "stable"`},
	} {
		out, err := invoke(append([]string{"routes", "--admin", admin.URL + "/"}, tc.args...)...)
		if err != nil || !strings.Contains(out, tc.says) {
			t.Errorf("routes %v: %v, want %q in:\n%s", tc.args, err, tc.says, out)
		}
	}
	admin.Close()
	if _, err := invoke("routes", "--admin", admin.URL); err == nil || !strings.Contains(err.Error(), "no interceptor answers") {
		t.Errorf("error %v", err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if _, err := invoke("routes", "--admin", other.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
}

// envoyAdmin answers like an Envoy's admin interface, with one connection fewer each time
// it is asked for them.
type envoyAdmin struct {
	mu     sync.Mutex
	active int
	stays  bool
	asked  []string
}

func (e *envoyAdmin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line := r.Method + " " + r.URL.RequestURI()
	if !slices.Contains(e.asked, line) {
		e.asked = append(e.asked, line)
	}
	if r.URL.Path == "/stats" {
		fmt.Fprintf(w, `{"stats":[{"name":"http.kedify-proxy.downstream_cx_active","value":%d}]}`, e.active)
		if !e.stays {
			e.active--
		}
	}
}

func TestDrain(t *testing.T) {
	for name, tc := range map[string]struct {
		admin   *envoyAdmin
		delay   string
		timeout string
		says    []string
	}{
		"nobody there": {&envoyAdmin{stays: true}, "0s", "30s", []string{"no connection is left"}},
		"clients go":   {&envoyAdmin{active: 2}, "0s", "30s", []string{"clients left: 2", "clients left: 1", "no connection is left"}},
		"one stays":    {&envoyAdmin{active: 1, stays: true}, "0s", "600ms", []string{"clients left: 1", "600ms are over; connections that end with the pod: 1"}},
		// As long as the delay lasts, new connections may arrive.
		"nobody there yet": {&envoyAdmin{stays: true}, "1h", "600ms", []string{"600ms are over; connections that end with the pod: 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.admin)
			defer server.Close()
			out, err := invoke("drain", "--admin", server.URL, "--delay", tc.delay, "--timeout", tc.timeout)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range tc.says {
				if !strings.Contains(out, part) {
					t.Errorf("%q is not in:\n%s", part, out)
				}
			}
			want := []string{
				"POST /healthcheck/fail", "POST /drain_listeners?graceful&skip_exit",
				"GET /stats?filter=%5Ehttp%5C.kedify-proxy%5C.downstream_cx_active%24&format=json",
			}
			if !slices.Equal(tc.admin.asked, want) {
				t.Errorf("asked %q, want %q", tc.admin.asked, want)
			}
		})
	}
	if _, err := invoke("drain", "--admin", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "no Envoy answers") {
		t.Errorf("error %v", err)
	}
}

// An Envoy whose bootstrap was printed before the admin interface had a port of its
// own is drained, too.
func TestDrainFindsTheAdminInterfaceOfAnOlderBootstrap(t *testing.T) {
	server := httptest.NewServer(&envoyAdmin{stays: true})
	defer server.Close()
	var nobody uint16
	freeport.Set(t, &nobody)
	var out strings.Builder
	d := drainer{admin: fmt.Sprint("http://127.0.0.1:", nobody), older: server.URL, out: &out}
	if err := d.run(t.Context(), patience); err != nil || !strings.Contains(out.String(), "no connection is left") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
