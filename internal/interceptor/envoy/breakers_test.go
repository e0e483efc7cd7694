package envoy

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// An application that hangs takes as many requests of an Envoy as its limit allows. More
// are answered 503 with Retry-After and counted, and other applications are served.
func TestLimitOfRequestsByARealEnvoy(t *testing.T) {
	const limit = 3
	w := newWorld(t)
	for service, protocol := range map[string]routes.Protocol{"http1": routes.HTTP1, "h2c": routes.H2C} {
		_, at := serveFlood(t, nil)
		w.service(service, protocol, at)
		w.object(service, service, "", nil)
	}
	w.service("other", routes.HTTP1, serve(t, says("other")))
	w.object("other", "other", "", nil)
	e, address := runEnvoy(t, static(t, newTranslator(t, Options{MaxRequests: limit, RetryAfter: 7 * time.Second}), w.table(), nil))
	for _, name := range []string{"http1", "h2c"} {
		t.Run(name, func(t *testing.T) {
			client, host := oneConnection(t), name+".example.com"
			for range limit {
				if err := begin(t, client, address, host, "/endless", nil); err != nil {
					t.Fatal(err)
				}
			}
			r, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "7" {
				t.Errorf("a request above the limit is answered %s with Retry-After %q", res.Status, res.Header.Get("Retry-After"))
			}
			if n := e.Stat(fmt.Sprintf("cluster.demo/%s/%[1]s.upstream_rq_active_overflow", name)); n != 1 {
				t.Errorf("it is counted %d times", n)
			}
			if code, body := ask(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, address, "other.example.com", "/"); code != http.StatusOK {
				t.Errorf("another application: %d %q", code, body)
			}
		})
	}
}
