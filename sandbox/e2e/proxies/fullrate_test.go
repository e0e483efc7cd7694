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
	host := n.Name + ".test"
	n.Apply(traffictest.Deployment("stable", "blue", pods) + traffictest.Deployment("canary", "yellow", pods) +
		traffictest.Object{Name: "app", Hosts: []string{host}, Service: "stable"}.Manifest())
	proxies := []traffictest.Proxy{traffictest.Embedded(t, n), traffictest.Envoy(t, n)}
	split := func(t *testing.T, p traffictest.Proxy, canary int) {
		t.Helper()
		traffictest.Split(t, n, "app", e2etest.Weight{Service: "stable", Weight: 100 - canary}, e2etest.Weight{Service: "canary", Weight: canary})
		p.AwaitShares(t, "app", map[string]int{"stable": 100 - canary, "canary": canary})
	}
	ends := func(t *testing.T, app string, count int) {
		t.Helper()
		arguments := []string{"delete", "pod"}
		for _, pod := range traffictest.PodsOf(t, n, app)[:count] {
			arguments = append(arguments, pod.Name)
		}
		n.Kubectl(arguments...)
		traffictest.AwaitEndpoints(t, n, app, pods)
	}
	podsEnd := func(t *testing.T, p traffictest.Proxy) {
		t.Helper()
		ends(t, "canary", pods/2)
		split(t, p, 50)
		ends(t, "stable", pods/2)
		ends(t, "canary", pods)
		split(t, p, 20)
	}
	for _, p := range proxies {
		for _, app := range []string{"stable", "canary"} {
			traffictest.AwaitEndpoints(t, n, app, pods)
		}
		split(t, p, 20)
		p.Await(t, host, "/")
		t.Run(p.Name+", our client", func(t *testing.T) {
			load := traffictest.StartFullLoad(t, p, host)
			load.AwaitBoth("blue", "yellow")
			podsEnd(t, p)
			load.AwaitBoth("blue", "yellow")
			load.Finish(nil, "blue", "yellow")
		})
		for _, client := range []loadclient.Client{loadclient.Wrk, loadclient.H2load} {
			t.Run(p.Name+", "+client.Name, func(t *testing.T) {
				load := traffictest.StartClient(t, p, host, client)
				podsEnd(t, p)
				load.Finish()
			})
		}
	}
}
