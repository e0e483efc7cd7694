package contour

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/contour"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

// pluginName is the name that the router is registered with.
const pluginName = "argoproj-labs/gatewayAPI"

// routeManifest is the HTTPRoute "app", with a label and an annotation of its user.
const routeManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: app
  labels:
    team: checkout
  annotations:
    example.com/note: not the plugin's
spec:
  parentRefs:
    - name: GATEWAY
      namespace: NAMESPACE_OF_IT
  hostnames: [HOST]
  rules:
    - backendRefs:
        - name: app-stable
          port: 80
          weight: 100
        - name: app-canary
          port: 80
          weight: 0
`

// twoPauses are steps to 20 and 60 %, each with a pause behind it.
const twoPauses = "- setWeight: 20\n- pause: {}\n- setWeight: 60\n- pause: {}\n"

// margin is the deviation, in percentage points, that is detected where telling one
// step from the next is enough: this takes a tenth of the requests that
// traffictest.Margin takes.
const margin = 8

// startLoad sends 100 requests a second through a proxy until the test ends: few enough
// that the requests of parallel tests do not wait for one another.
func startLoad(t *testing.T, p traffictest.Proxy, host string) *traffictest.Load {
	t.Helper()
	return traffictest.StartLoadAt(t, p, host, 100)
}

// gateway is the Envoys of the implementation at the address of its Gateway.
func gateway(t *testing.T) traffictest.Proxy {
	t.Helper()
	return traffictest.Proxy{Name: behind.addon, Address: net.JoinHostPort(loadBalancer(t), "80")}
}

// canary is an App whose requests come through the Gateway.
type canary struct {
	*e2etest.Namespace
	host  string
	route string // its manifest
	proxy traffictest.Proxy
}

// startCanary makes an App with its HTTPRoute in a namespace of its own, and waits until
// it is healthy. The route's manifest is filled in.
func startCanary(t *testing.T, app e2etest.App, route string) canary {
	t.Helper()
	n := e2etest.NewNamespace(t)
	c := canary{Namespace: n, host: n.Name + ".test", proxy: gateway(t)}
	c.route = fill(route, c.host)
	app = routed(app)
	n.Apply(app.Services() + "---" + c.route + app.Rollout())
	n.AwaitHealthy(name, e2etest.Image("blue"))
	return c
}

// routed returns the App with a Rollout that names HTTPRoute "app". Its minReadySeconds
// delay the weight until Envoy has the new pods: until then Envoy answers 503, which
// the Rollout does not notice.
func routed(app e2etest.App) e2etest.App {
	app.Name, app.PluginName, app.Plugin = name, pluginName, "httpRoute: app"
	app.Spec += "minReadySeconds: 1\n"
	return app
}

// awaitServed waits until the Gateway answers for the App.
func (c canary) awaitServed(t *testing.T) {
	t.Helper()
	awaitColour(t, loadBalancer(t), c.host, "blue")
}

// awaitOnly waits until all requests of a load are answered by one version.
func awaitOnly(t *testing.T, load *traffictest.Load, colour string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "all requests get "+colour, func(context.Context) error {
		return traffic.CheckSmooth(load.Next(100), colour, 100)
	})
}

// sample is the canary of examples/gatewayapi behind the Gateway, under a load of
// requests. Its timed pauses are replaced by pauses until a promotion, so that judging
// a share may take any time.
type sample struct {
	*e2etest.Namespace
	load *traffictest.Load
}

const (
	sampleRollout = "my-app"
	sampleRoute   = "my-app-route"
)

func startSample(t *testing.T) sample {
	t.Helper()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	if behind.addon == contour.Name {
		n.Apply(n.Kubectl("kustomize", e2etest.Repository(t, "examples", "gatewayapi", "gateway")))
	}
	manifest := n.Kubectl("kustomize", e2etest.Repository(t, "examples", "gatewayapi", "canary"))
	manifest = changed(t, manifest, "- name: contour\n    namespace: projectcontour\n", "- name: "+behind.Name+"\n    namespace: "+behind.Namespace+"\n")
	const timed = "pause:\n          duration: 30s"
	if got := strings.Count(manifest, timed); got != 3 {
		t.Fatalf("the sample has %d timed pauses, want 3 of:\n%s\nin:\n%s", got, timed, manifest)
	}
	n.Apply(strings.NewReplacer("api.example.com", host, timed, "pause: {}").Replace(manifest))
	n.AwaitHealthy(sampleRollout, e2etest.Image("blue"))
	p := gateway(t)
	p.Prefix = "/my-app"
	e2etest.Eventually(t, e2etest.Patience, "the Gateway answers for "+host, func(ctx context.Context) error {
		answers, err := traffic.Send(ctx, traffic.Options{Target: p.Address, Host: host, Path: p.Prefix + "/color"}, 1)
		if err == nil && answers[0].Backend != "blue" {
			err = fmt.Errorf("%s", answers[0])
		}
		return err
	})
	s := sample{n, startLoad(t, p, host)}
	s.load.RequireOnly("blue")
	return s
}

// requireStep waits until the Rollout is paused at a step, and fails the test unless
// the route and the requests have its weight.
func (s sample) requireStep(t *testing.T, index int32, weight int) {
	t.Helper()
	s.AwaitPaused(sampleRollout, index)
	requireWeights(t, s.Namespace, sampleRoute, fmt.Sprintf("%d/%d", 100-weight, weight))
	within := margin
	if weight < 2*margin {
		within = traffictest.Margin
	}
	s.load.AwaitShareWithin("yellow", weight, within)
}

// The canary of examples/gatewayapi is promoted step by step: the route and the
// requests' shares follow each weight, each weight takes one write, no request is lost
// until the old pods are gone, and in the end the route is as it was applied.
func TestGatewayCanaryPromoted(t *testing.T) {
	t.Parallel()
	s := startSample(t)
	before := routeOf(t, s.Namespace, sampleRoute)
	record := recordWeights(t, s.Namespace, sampleRoute)
	if before.GetGeneration() != 1 {
		t.Errorf("the route was written at rest: its generation is %d", before.GetGeneration())
	}
	s.SetImage(sampleRollout, e2etest.Image("yellow"))
	for i, weight := range []int{5, 25, 50, 75} {
		s.requireStep(t, int32(2*i+1), weight)
		s.Promote(sampleRollout)
	}
	s.AwaitHealthy(sampleRollout, e2etest.Image("yellow"))
	awaitRest(t, s.Namespace, before)
	awaitOnly(t, s.load, "yellow")
	e2etest.Eventually(t, e2etest.Patience, "the old pods are gone", func(context.Context) error {
		for _, pod := range traffictest.PodsOf(t, s.Namespace, sampleRollout) {
			if image := pod.Spec.Containers[0].Image; image != e2etest.Image("yellow") {
				return fmt.Errorf("%s runs %s", pod.Name, image)
			}
		}
		return nil
	})
	s.load.RequireOnly("yellow")
	s.load.Finish(nil, "blue", "yellow")
	record.requireWeights("100/0", "95/5", "75/25", "50/50", "25/75", "0/100", "100/0")
	requireWrites(t, s.Namespace, sampleRoute, "patch", 6)
}

// An abort in the middle takes all requests back to the old version, without losing
// one, and the route is as it was applied.
func TestGatewayCanaryAborted(t *testing.T) {
	t.Parallel()
	s := startSample(t)
	before := routeOf(t, s.Namespace, sampleRoute)
	record := recordWeights(t, s.Namespace, sampleRoute)
	s.SetImage(sampleRollout, e2etest.Image("yellow"))
	s.requireStep(t, 1, 5)
	s.Promote(sampleRollout)
	s.requireStep(t, 3, 25)
	s.Abort(sampleRollout)
	s.AwaitAborted(sampleRollout)
	awaitRest(t, s.Namespace, before)
	awaitOnly(t, s.load, "blue")
	s.load.Finish(nil, "blue", "yellow")
	record.requireWeights("100/0", "95/5", "75/25", "100/0")
	requireWrites(t, s.Namespace, sampleRoute, "patch", 3)
}
