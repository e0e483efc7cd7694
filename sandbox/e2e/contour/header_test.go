package contour

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// headerSteps set two header routes beside a weight, and take one of them away.
const headerSteps = `
- setWeight: 20
- setHeaderRoute:
    name: beta
    match: [{headerName: X-Beta, headerValue: {exact: "yes"}}]
- setHeaderRoute:
    name: region
    match: [{headerName: X-Region, headerValue: {prefix: eu.}}]
- pause: {}
- setHeaderRoute:
    name: beta
- pause: {}
`

// Requests with a step's header go to the canary, those without it are split by the
// weight. The rules of the header routes stand beside the user's, and a step removes
// one by its name. A prefix is taken literally, not as a regular expression.
func TestHeaderRouteBesideAWeight(t *testing.T) {
	t.Parallel()
	c := startCanary(t, e2etest.App{Steps: headerSteps, TrafficRouting: "managedRoutes: [{name: beta}, {name: region}]"}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	load := startLoad(t, c.proxy, c.host)
	c.SetImage(name, e2etest.Image("yellow"))

	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "80/20 1 1")
	c.awaitOnly(t, "X-Beta", "yes", "yellow")
	c.awaitOnly(t, "X-Region", "eu.west", "yellow")
	load.AwaitShareWithin("yellow", 20, margin)
	c.requireBoth(t, "X-Beta", "no")
	c.requireBoth(t, "X-Region", "euxwest")

	c.Promote(name)
	c.AwaitPaused(name, 5)
	requireWeights(t, c.Namespace, name, "80/20 1")
	e2etest.Eventually(t, e2etest.Patience, "the header of the removed route selects nothing", func(ctx context.Context) error {
		return c.checkBoth(ctx, "X-Beta", "yes")
	})
	c.awaitOnly(t, "X-Region", "eu.west", "yellow")

	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	awaitOnly(t, load, "blue")
	c.awaitOnly(t, "X-Region", "eu.west", "blue")
	load.Finish(nil, "blue", "yellow")
}

// With a header route at weight 0 only requests with the header reach the canary, and
// the route keeps the in-progress label as long as it has the header route.
func TestHeaderRouteAtWeight0(t *testing.T) {
	t.Parallel()
	steps := `
- setCanaryScale: {replicas: 1}
- setHeaderRoute:
    name: beta
    match: [{headerName: X-Beta, headerValue: {exact: "yes"}}]
- pause: {}
`
	c := startCanary(t, e2etest.App{Steps: steps, TrafficRouting: "managedRoutes: [{name: beta}]"}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	load := startLoad(t, c.proxy, c.host)
	c.SetImage(name, e2etest.Image("yellow"))
	c.AwaitPaused(name, 2)
	awaitRoute(t, c.Namespace, name, e2etest.Patience, "header route at weight 0", func(route *unstructured.Unstructured) error {
		return checkWeights(route, "100/0 1")
	})
	c.awaitOnly(t, "X-Beta", "yes", "yellow")
	load.RequireOnly("blue")
	requireWeights(t, c.Namespace, name, "100/0 1")
	c.Promote(name)
	c.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitRest(t, c.Namespace, before)
	awaitOnly(t, load, "yellow")
	load.Finish(nil, "blue", "yellow")
}

// ask sends 100 requests with a header, and returns how many each version answered.
func (c canary) ask(ctx context.Context, header, value string) (map[string]int, error) {
	answers, err := traffic.Send(ctx, traffic.Options{
		Target: c.proxy.Address, Host: c.host, Header: http.Header{header: {value}}, Connections: 4,
	}, 100)
	if err != nil {
		return nil, err
	}
	counts := traffic.Count(answers)
	if len(counts.Failed) > 0 {
		return nil, fmt.Errorf("%d of %d requests failed: %s", len(counts.Failed), counts.Requests, counts.Failed[0])
	}
	return counts.Backends, nil
}

// awaitOnly waits until one version answers all requests with a header.
func (c canary) awaitOnly(t *testing.T, header, value, colour string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("requests with %s: %s get %s alone", header, value, colour), func(ctx context.Context) error {
		got, err := c.ask(ctx, header, value)
		if err == nil && got[colour] != 100 {
			err = fmt.Errorf("they get %v", got)
		}
		return err
	})
}

// requireBoth fails the test unless both versions answer requests with a header.
func (c canary) requireBoth(t *testing.T, header, value string) {
	t.Helper()
	if err := c.checkBoth(t.Context(), header, value); err != nil {
		t.Error(err)
	}
}

func (c canary) checkBoth(ctx context.Context, header, value string) error {
	got, err := c.ask(ctx, header, value)
	if err == nil && (got["blue"] == 0 || got["yellow"] == 0) {
		err = fmt.Errorf("requests with %s: %s get %v, want both versions", header, value, got)
	}
	return err
}
