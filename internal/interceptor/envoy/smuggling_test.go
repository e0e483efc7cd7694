package envoy

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/smugglingtest"
)

// knownOfEnvoy are known faults of Envoy by the name of the case. Envoy holds back what
// follows the header of an upgrade until the application has answered with 101, and
// ends the stream if it answers otherwise. So an application that reads the body before
// it answers never gets the body, and the response of one that answers at once is cut
// short if the client has sent more. Neither fault affects another client's requests,
// and no WebSocket client sends anything before the answer.
var knownOfEnvoy = map[string][]string{
	"an upgrade with a length":     {"hangs", "it got no answer"},
	"an upgrade that is not taken": {"the answer is not an application's", `application "" has answered to  with body ""`},
}

// withoutKnown returns the faults of a case that are not known, and the known faults
// that the case no longer has.
func withoutKnown(faults, known []string) (others, gone []string) {
	gone = slices.Clone(known)
	for _, fault := range faults {
		i := slices.IndexFunc(known, func(k string) bool { return strings.Contains(fault, k) })
		if i < 0 {
			others = append(others, fault)
			continue
		}
		gone = slices.DeleteFunc(gone, func(k string) bool { return k == known[i] })
	}
	return others, gone
}

// An attack, which could be read as two requests or is no valid request, is refused, or
// served as one request that cannot be read in another way; a plain request is served by
// the application of its host; and no connection hangs.
func TestSmuggling(t *testing.T) {
	for kind, serveTable := range map[string]func(*testing.T, *routes.Table) string{
		"embedded": embedded,
		"envoy": func(t *testing.T, table *routes.Table) string {
			return startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil))
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const host = "app.example.com"
			w := newWorld(t)
			target := smugglingtest.Target{
				Host: host, Patience: 20 * time.Second,
				App: application(t, w, "app", host), Other: application(t, w, "other", "other."+host),
			}
			target.Address = serveTable(t, w.table())
			// The proxy has sent all it had to send on a connection that it keeps
			// alive before it gets an answer to another request on it.
			target.Settle = func() {
				for _, host := range []string{host, "other." + host} {
					if status, body := ask(t, http.DefaultClient, target.Address, host, "/last"); status != http.StatusOK {
						t.Errorf("the last request to %s is answered with %d %s", host, status, body)
					}
				}
			}
			faults := smugglingtest.Run(target, slices.Concat(smugglingtest.Benign, smugglingtest.Attacks))
			if kind == "envoy" {
				for name, known := range knownOfEnvoy {
					others, gone := withoutKnown(faults[name], known)
					if len(gone) > 0 {
						t.Errorf("%s: Envoy no longer does what is known of it: %q, want %q, too", name, faults[name], gone)
					}
					faults[name] = others
				}
			}
			for name, found := range faults {
				for _, fault := range found {
					t.Errorf("%s: %s", name, fault)
				}
			}
		})
	}
}

// application runs an application, and makes an HTTPScaledObject for it.
func application(t *testing.T, w *world, name, host string) *smugglingtest.Application {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := smugglingtest.NewApplication(name, l)
	w.service(name, routes.HTTP1, netip.MustParseAddrPort(a.Addr.String()))
	w.object(name, name, "", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = []string{host} })
	return a
}
