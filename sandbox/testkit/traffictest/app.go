package traffictest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// App is an HTTPScaledObject "app" with two Services, stable (blue) and canary (yellow),
// behind some proxies.
type App struct {
	*e2etest.Namespace
	Host            string
	Embedded, Envoy Proxy

	proxies []Proxy
}

// StartApp starts an App in a namespace of its own and behind both proxies, whose canary
// has a weight of 20, and waits until both serve it.
func StartApp(t testing.TB) App {
	t.Helper()
	n := e2etest.NewNamespace(t)
	embedded, envoy := Embedded(t, n), Envoy(t, n)
	a := StartAppBehind(t, n, 1, embedded, envoy)
	a.Embedded, a.Envoy = embedded, envoy
	a.SetWeight(t, 20)
	return a
}

// StartAppBehind starts an App without a split and with so many pods of each version, and
// waits until they are ready.
func StartAppBehind(t testing.TB, n *e2etest.Namespace, replicas int, proxies ...Proxy) App {
	t.Helper()
	a := App{Namespace: n, Host: n.Name + ".test", proxies: proxies}
	n.Apply(Deployment("stable", "blue", replicas) + Deployment("canary", "yellow", replicas) +
		Object{Name: "app", Hosts: []string{a.Host}, Service: "stable"}.Manifest())
	AwaitEndpoints(t, n, "stable", replicas)
	AwaitEndpoints(t, n, "canary", replicas)
	return a
}

// SetWeight changes the canary's weight, and waits until the proxies have it.
func (a App) SetWeight(t testing.TB, canary int) {
	t.Helper()
	Split(t, a.Namespace, "app",
		e2etest.Weight{Service: "stable", Weight: 100 - canary}, e2etest.Weight{Service: "canary", Weight: canary})
	for _, p := range a.proxies {
		p.AwaitShares(t, "app", map[string]int{"stable": 100 - canary, "canary": canary})
	}
}
