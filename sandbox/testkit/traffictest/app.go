package traffictest

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// App is an HTTPScaledObject "app" with a split between two Services, stable (blue)
// and canary (yellow), in a namespace of its own and behind both proxies.
type App struct {
	*e2etest.Namespace
	Host            string
	Embedded, Envoy Proxy
}

// StartApp starts an App whose canary has a weight of 20, and waits until both
// proxies serve it.
func StartApp(t testing.TB) App {
	t.Helper()
	n := e2etest.NewNamespace(t)
	a := App{Namespace: n, Host: n.Name + ".test", Embedded: Embedded(t, n), Envoy: Envoy(t, n)}
	n.Apply(Deployment("stable", "blue", 1) + Deployment("canary", "yellow", 1) +
		Object{Name: "app", Hosts: []string{a.Host}, Service: "stable"}.Manifest())
	AwaitEndpoints(t, n, "stable", 1)
	AwaitEndpoints(t, n, "canary", 1)
	a.SetWeight(t, 20)
	return a
}

// SetWeight changes the canary's weight, and waits until both proxies have it.
func (a App) SetWeight(t testing.TB, canary int) {
	t.Helper()
	Split(t, a.Namespace, "app",
		e2etest.Weight{Service: "stable", Weight: 100 - canary}, e2etest.Weight{Service: "canary", Weight: canary})
	for _, p := range []Proxy{a.Embedded, a.Envoy} {
		p.AwaitShares(t, "app", map[string]int{"stable": 100 - canary, "canary": canary})
	}
}
