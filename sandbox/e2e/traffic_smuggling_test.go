package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/smuggling"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
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

// TestTrafficSmuggling sends attacks, which could be read as two requests or are no
// valid request, and plain requests. The applications record all bytes they get. An attack
// is refused, or served as one request that cannot be read in another way; a plain
// request is served by the application of its host; and no connection hangs.
func TestTrafficSmuggling(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		host := n.Name + ".test"
		application := func(name, host string) *smuggling.Application {
			a := smuggling.NewApplication(name, e2etest.ListenForPods(t))
			n.ServiceAt(name, a.Addr, "")
			n.Apply(traffictest.Object{Name: name, Hosts: []string{host}, Service: name}.Manifest())
			p.Await(t, host, "/")
			return a
		}
		target := smuggling.Target{
			Address: p.Address, Host: host, App: application("app", host), Other: application("other", "other."+host),
			Patience: 10 * time.Second,
			// The proxy has sent all it had to send on a connection that it keeps
			// alive before it gets an answer to another request on it.
			Settle: func() { p.Await(t, host, "/last"); p.Await(t, "other."+host, "/last") },
			Log:    t.Logf,
		}
		faults := smuggling.Run(target, slices.Concat(smuggling.Benign, smuggling.Attacks))
		if p.Name == "envoy" {
			for name, known := range knownOfEnvoy {
				others, gone := withoutKnown(faults[name], known)
				if len(gone) > 0 {
					t.Errorf("%s: Envoy no longer does what is known of it: %q, want %q, too", name, faults[name], gone)
				}
				faults[name] = others
			}
		}
		for _, name := range traffictest.Sorted(faults) {
			for _, fault := range faults[name] {
				t.Errorf("%s: %s", name, fault)
			}
		}
	})
}
