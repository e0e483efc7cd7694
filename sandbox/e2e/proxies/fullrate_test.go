package proxies

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/loadclient"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// TestTrafficPodsEndAtFullRate deletes pods of both sides of a split, some of them and
// then all of one side, and changes the weights meanwhile, while clients send GET
// requests as fast as they are answered: applications that shut down close idle
// connections just when requests are sent on them, and no request is lost. The clients
// are our own and third-party ones, since each decides by itself what counts as an
// error.
func TestTrafficPodsEndAtFullRate(t *testing.T) {
	const pods = 4
	n := e2etest.NewNamespace(t)
	proxies := []traffictest.Proxy{traffictest.Embedded(t, n), traffictest.Envoy(t, n)}
	s := traffictest.StartAppBehind(t, n, pods, proxies...)
	ends := func(t *testing.T, app string, count int) {
		t.Helper()
		arguments := []string{"delete", "pod"}
		for _, pod := range traffictest.PodsOf(t, n, app)[:count] {
			arguments = append(arguments, pod.Name)
		}
		n.Kubectl(arguments...)
		traffictest.AwaitEndpoints(t, n, app, pods)
	}
	podsEnd := func(t *testing.T) {
		t.Helper()
		ends(t, "canary", pods/2)
		s.SetWeight(t, 50)
		ends(t, "stable", pods/2)
		ends(t, "canary", pods)
		s.SetWeight(t, 20)
	}
	for _, p := range proxies {
		for _, app := range []string{"stable", "canary"} {
			traffictest.AwaitEndpoints(t, n, app, pods)
		}
		s.SetWeight(t, 20)
		p.Await(t, s.Host, "/")
		t.Run(p.Name+", our client", func(t *testing.T) {
			load := traffictest.StartFullLoad(t, p, s.Host)
			load.AwaitBoth("blue", "yellow")
			podsEnd(t)
			load.AwaitBoth("blue", "yellow")
			load.Finish(nil, "blue", "yellow")
		})
		for _, client := range []loadclient.Client{loadclient.Wrk, loadclient.H2load} {
			t.Run(p.Name+", "+client.Name, func(t *testing.T) {
				load := traffictest.StartClient(t, p, s.Host, client)
				podsEnd(t)
				load.Finish()
			})
		}
	}
}
