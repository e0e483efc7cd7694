package proxy

import (
	"context"
	"io"
	"net/http"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Each try is counted at the Service that it went to, by what became of it. Answered ones
// tell how long the application's header took.
func TestTriesAreCounted(t *testing.T) {
	const tries, header = "interceptor_tries_total", "interceptor_time_to_header_seconds"
	w := newWorld(t)
	arrived := make(chan struct{}, 1)
	app := w.app(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			<-r.Context().Done()
		case "/hangs":
			arrived <- struct{}{}
			<-r.Context().Done()
		case "/breaks":
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
				_ = c.Close()
			}
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	_, closes := w.silent(1)
	expect := func(step, service string, outcome tryOutcome, want float64) {
		t.Helper()
		eventually(t, step, func() bool { return value(t, w.proxy, tries, "demo", "app", service, string(outcome)) == want })
	}
	timeout := "100ms"
	w.object("", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &timeout}
	})
	w.service("stable", "", app)
	w.commit()
	if res, _ := w.get("/late"); res.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("an application that hangs: %s", res.Status)
	}
	expect("no answer in time", "stable", tryTimeout, 1)

	w.object("")
	w.commit()
	w.get("/")
	w.get("/fails")
	expect("an answer, whatever its code", "stable", tryAnswered, 2)
	if got := value(t, w.proxy, header); got != 2 {
		t.Errorf("the time to the header was observed %v times, want 2", got)
	}

	if res, _ := w.get("/breaks"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("a header that is not whole: %s", res.Status)
	}
	expect("a header that is not whole", "stable", tryBroken, 1)

	ctx, leave := context.WithCancel(t.Context())
	r := w.request(http.MethodGet, "/hangs", nil).WithContext(ctx)
	w.inBackground(w.client, r)
	<-arrived
	leave()
	expect("the client left", "stable", tryAbandoned, 1)

	w.service("stable", "", closes)
	w.commit()
	w.get("/")
	expect("a connection that was closed", "stable", tryUnanswered, 1)
	expect("and the request sent again", "stable", tryAnswered, 3)

	w.service("stable", "", unused(t))
	w.service("canary", "", app)
	w.object("stable=99 canary=1")
	w.commit()
	w.get("/")
	expect("no connection", "stable", tryConnectFailure, 1)
	expect("and the request sent to the other Service", "canary", tryAnswered, 1)
	w.object("", waitsFor("0s"))
	w.commit()
	w.get("/")
	if _, found := find(t, w.proxy, tries, "demo", "app", "canary", string(tryAnswered)); found {
		t.Error("a Service that left the split has tries still")
	}
}
