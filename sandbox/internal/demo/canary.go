package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/interceptor/interceptortest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	// rate is how many requests are sent a second.
	rate = 100

	// judged is how many requests each share is judged by.
	judged = 300

	// of is how many shares are judged together by Envoy's random pick: in 999 of 1,000
	// cases all of them are within the bounds. A demo has four; CI runs three demos for
	// each change.
	of = 1000
)

// canaryStory is a sample that the demo takes through two canaries.
type canaryStory struct {
	// before are directories of manifests that are applied first, for the whole cluster.
	before []string
	// sample is the directory of the manifests that are applied in the namespace, and
	// rollout the name of the Rollout in it and of the Rollout's container.
	sample, namespace, rollout string
	// apply applies what more there is in the namespace, and returns the proxy that
	// splits the requests for host.
	apply func(*player) traffictest.Proxy
	host  string
	carrier
	// split is what read returns at a weight of 0..100, with a header route or without.
	split func(weight int, header bool) string
	// pauses are those that wait for a person. A bad version is to be caught at the first.
	pauses []pause
}

// carrier is an object that carries the split.
type carrier struct {
	resource schema.GroupVersionResource
	object   string
	// called is what people call the place.
	called string
	// read returns the split, on one line.
	read func(*unstructured.Unstructured) string
}

// annotation is the carrier of the router Kedify.
var annotation = carrier{cluster.HTTPScaledObjectGVR, "rollouts-demo", "annotation", annotated}

// pause is a step at which the canary has a weight.
type pause struct {
	step   int32
	weight int
	header bool // whether there is a header route
}

// header is the header that the header route of the demo GatewayAPI matches.
var header = http.Header{"X-Beta": {"yes"}}

// onHTTPScaledObject is the sample of the router Kedify, without its proxy.
var onHTTPScaledObject = canaryStory{
	sample: "sandbox/manifests/demo", namespace: "rollouts-demo", rollout: "rollouts-demo", host: "rollouts-demo.example.com",
	carrier: annotation,
	split: func(weight int, _ bool) string {
		if weight == 0 {
			return noSplit
		}
		return fmt.Sprintf("rollouts-demo-stable=%d, rollouts-demo-canary=%d", 100-weight, weight)
	},
	pauses: []pause{{1, 20, false}, {3, 50, false}, {5, 80, false}},
}

// embedded is the sample behind the interceptor's own proxy.
func embedded() canaryStory {
	s := onHTTPScaledObject
	s.apply = func(*player) traffictest.Proxy {
		return traffictest.Proxy{Name: Embedded, Address: strings.TrimPrefix(interceptortest.URL, "http://"), Smooth: true}
	}
	return s
}

// envoy is the sample behind kedify-proxy.
func envoy() canaryStory {
	s := onHTTPScaledObject
	s.apply = func(p *player) traffictest.Proxy {
		p.run("kubectl", "-n", s.namespace, "apply", "-k", "deploy/kedify-proxy")
		p.run("kubectl", "-n", s.namespace, "rollout", "status", "deployment/kedify-proxy", "--timeout", e2etest.Patience.String())
		return traffictest.Proxy{Name: Envoy, Address: "kedify-proxy." + s.namespace + ".svc.cluster.local:8080"}
	}
	return s
}

// gateway is the sample of the router GatewayAPI, behind the Envoy that Contour programs.
func gateway() canaryStory {
	return canaryStory{
		before: []string{"examples/gatewayapi/gateway"},
		sample: "sandbox/manifests/demo-gatewayapi", namespace: "my-app", rollout: "my-app", host: "api.example.com",
		apply: func(p *player) traffictest.Proxy {
			address := p.ask("kubectl -n projectcontour get gateway contour -o jsonpath='{.status.addresses[0].value}'")
			return traffictest.Proxy{Name: "gateway", Address: net.JoinHostPort(address, "80"), Prefix: "/my-app"}
		},
		carrier: carrier{schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}, "my-app-route", "HTTPRoute", routed},
		split: func(weight int, header bool) string {
			text := fmt.Sprintf("my-app-stable=%d, my-app-canary=%d", 100-weight, weight)
			if header {
				text += "; my-app-canary=1 with X-Beta: yes"
			}
			return text
		},
		pauses: []pause{{1, 5, false}, {4, 25, true}, {6, 50, true}, {8, 75, true}},
	}
}

// canaryDemo is the demo of a story of two canaries.
func canaryDemo(story func() canaryStory, addons ...string) Demo {
	return Demo{addons: addons, claim: []string{
		fmt.Sprintf("To be proved, under %d requests a second: a new version takes over step by", rate),
		"step and is promoted; one that fails 15 in 100 of its requests is aborted by",
		"its background analysis; and no request fails but that bad version's own.",
	}, play: func(p *player) { p.playCanaries(story()) }}
}

func (p *player) playCanaries(s canaryStory) {
	for _, directory := range s.before {
		p.run("kubectl", "apply", "-k", directory)
	}
	p.run("kubectl", "create", "ns", s.namespace)
	p.run("kubectl", "-n", s.namespace, "apply", "-k", s.sample)
	n := p.inNamespace(e2etest.Connect(p), s.namespace)
	v, _ := newView(p)
	v.followCanary(n, s.carrier)
	proxy := s.apply(p)
	n.AwaitHealthy(s.rollout, e2etest.Image("blue"))
	p.awaitServed(proxy, s.host)
	c := &canaries{player: p, canaryStory: s, n: n, loads: []*traffictest.Load{traffictest.StartLoadAt(p, proxy, s.host, rate)}, proxy: proxy}
	p.show(Line{fmt.Sprintf("requests: %d a second, as of  curl -H 'Host: %s' http://%s%s/color", rate, s.host, proxy.Address, proxy.Prefix), Dim})
	v.showLoad(c.loads[0].Load)
	if s.pauses[len(s.pauses)-1].header {
		p.show(Line{fmt.Sprintf("and %d a second with  -H 'X-Beta: yes'", rate), Dim})
		c.loads = append(c.loads, traffictest.StartLoadWith(p, proxy, s.host, rate, header))
	}
	c.promote()
	c.abort()
	c.drawing.to, c.drawing.answers = time.Now(), c.loads[0].Since(0)
	if p.pictureFile != "" {
		if err := c.drawing.write(p.pictureFile); err != nil {
			p.Fatal(err)
		}
	}
	for i, load := range c.loads {
		claim := []string{"no request failed but the bad version's own", "nor any with the header"}[i]
		p.check(claim, func() {
			load.Finish(func(a traffic.Answer) bool { return a.FailedBackend == "green" }, "blue", "yellow", "green")
		})
	}
}

// followCanary shows a canary of a namespace.
func (v *view) followCanary(n *e2etest.Namespace, c carrier) {
	v.followRollouts(n, func(string) string { return "Rollout" })
	v.followSplit(n, c)
	v.followAnalysis(n)
	v.followEvents(n)
}

// canaries are the two canaries of a story under way.
type canaries struct {
	*player
	canaryStory
	n     *e2etest.Namespace
	proxy traffictest.Proxy
	// loads are the requests without a header, and those with the one of the header route
	// if there is one.
	loads []*traffictest.Load
	// drawing is the picture of the requests so far.
	drawing picture
}

// promote shows a good version that takes over.
func (c *canaries) promote() {
	record := c.begin("yellow", "promoted step by step")
	want := []string{c.split(0, false)}
	last := pause{}
	for _, at := range c.pauses {
		want = append(want, c.split(last.weight, at.header), c.split(at.weight, at.header))
		last = at
		c.check(fmt.Sprintf("at a weight of %d yellow gets that share", at.weight), func() {
			c.requireVerified(c.n.AwaitPaused(c.rollout, at.step), at.weight)
			c.drawing.above = append(c.drawing.above, moment{time.Now(), fmt.Sprintf("%d %%", at.weight)})
			c.awaitShare(c.proxy, c.loads[0], "yellow", at.weight, judged)
			if at.header {
				c.awaitOnly("yellow", c.loads[1])
			}
		})
		c.rollouts("promote", c.rollout)
	}
	c.check("yellow is promoted, and gets all requests", func() {
		c.n.AwaitHealthy(c.rollout, e2etest.Image("yellow"))
		c.drawing.above = append(c.drawing.above, moment{time.Now(), "promoted"})
		c.awaitOnly("yellow", c.loads...)
	})
	c.check("its background analysis has judged it", func() {
		run := canarytest.AwaitMeasurement(c, c.n, "2")
		c.Logf("AnalysisRun %s is %s", run.Name, run.Status.Phase)
	})
	record.require(append(want, c.split(100, last.header), c.split(100, false), c.split(0, false))...)
}

// abort shows a bad version that its background analysis aborts at the first weight.
func (c *canaries) abort() {
	record := c.begin("bad-green", "fails 15 in 100 requests, aborted by the analysis")
	c.check("green's background analysis aborts it", func() {
		canarytest.RequireAbortedByAnalysis(c, c.n.AwaitAborted(c.rollout))
		c.drawing.above = append(c.drawing.above, moment{time.Now(), "aborted"})
	})
	c.check("yellow gets all requests again", func() { c.awaitOnly("yellow", c.loads...) })
	record.require(c.split(0, false), c.split(c.pauses[0].weight, false), c.split(0, false))
	c.check("green has failed requests, for there to be something to catch", func() {
		var answers []traffic.Answer
		for _, load := range c.loads {
			answers = append(answers, load.Since(0)...)
		}
		if e := exposureOf(answers, "green"); e.failed == 0 {
			c.Errorf("it has failed none of its %d", e.served)
		} else {
			c.Logf("%d of its %d, in %s from the first to all traffic being back", e.failed, e.served, e.lasted.Round(100*time.Millisecond))
		}
	})
}

// begin checks that the version before gets all requests, and sets a new image. It
// returns the record of the splits from then on.
func (c *canaries) begin(tag, title string) splitRecord {
	c.show(Line{"\n" + tag + ": " + title, Bold})
	before := "blue"
	if tag != "yellow" {
		before = "yellow"
	}
	c.check(before+" gets all requests before", func() { c.awaitOnly(before, c.loads...) })
	record := c.record(c.n, c.carrier)
	if c.drawing.from.IsZero() {
		c.drawing.from = time.Now()
	}
	c.drawing.below = append(c.drawing.below, moment{time.Now(), tag + ": " + title})
	c.rollouts("set", "image", c.rollout, c.rollout+"="+e2etest.Image(tag))
	return record
}

// rollouts runs `kubectl argo rollouts` as a person would type it.
func (c *canaries) rollouts(args ...string) {
	c.run("kubectl", append([]string{"argo", "rollouts", "-n", c.namespace}, args...)...)
}

// awaitServed waits until every proxy behind an address answers for a host: a Service
// gives new connections to each in turn.
func (p *player) awaitServed(proxy traffictest.Proxy, host string) {
	const inARow = 20
	e2etest.Eventually(p, e2etest.Patience, host+" is served", func(ctx context.Context) error {
		answers, err := traffic.Send(ctx, traffic.Options{Target: proxy.Address, Host: host, Path: proxy.Prefix + "/color", NewConnections: true}, inARow)
		if err != nil {
			return err
		}
		return traffic.CheckSmooth(answers, "blue", 100)
	})
}

// awaitShare waits until a version gets its share of a load.
func (p *player) awaitShare(proxy traffictest.Proxy, load *traffictest.Load, colour string, weight, judged int) {
	var answers []traffic.Answer
	e2etest.Eventually(p, e2etest.Patience, fmt.Sprintf("%s has a share of %d", colour, weight), func(context.Context) error {
		answers = load.Next(judged)
		if proxy.Smooth {
			return traffic.CheckSmooth(answers, colour, weight)
		}
		return traffic.CheckRandom(answers, colour, weight, of)
	})
	p.Logf("%d of %d requests", traffic.Count(answers).Backends[colour], len(answers))
}

// awaitOnly waits until a version answers all requests of some loads.
func (p *player) awaitOnly(colour string, loads ...*traffictest.Load) {
	for _, load := range loads {
		e2etest.Eventually(p, e2etest.Patience, colour+" gets all requests", func(context.Context) error {
			return traffic.CheckSmooth(load.Next(traffic.Window), colour, 100)
		})
	}
}

// requireVerified fails unless a Rollout says that its router has verified a weight.
func (p *player) requireVerified(ro *v1alpha1.Rollout, weight int) {
	if got, verified := weightOf(ro); int(got) != weight || verified != "verified" {
		p.Fatalf("the Rollout reports a weight of %d, %s, in place of %d, verified", got, verified, weight)
	}
}

// record records an object that carries splits, which are those of one canary.
func (p *player) record(n *e2etest.Namespace, c carrier) splitRecord {
	return splitRecord{p, n.RecordOf(c.resource, c.object), c}
}

// splitRecord holds the splits of a canary.
type splitRecord struct {
	p *player
	*e2etest.Recorder
	carrier
}

// require checks that the object has carried these splits alone, in this order.
func (r splitRecord) require(want ...string) {
	r.p.check("the "+r.called+" has carried the weights of these steps, and no other", func() {
		e2etest.Eventually(r.p, e2etest.Patience, "splits", func(context.Context) error {
			var got []string
			for _, state := range r.States() {
				got = append(got, r.read(state))
			}
			if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	})
}

// noSplit stands for an HTTPScaledObject without the router's annotation.
const noSplit = "none"

// annotated reads the split of an HTTPScaledObject, on one line: "stable=80, canary=20".
func annotated(object *unstructured.Unstructured) string {
	text := strings.NewReplacer("- service: ", "", "\n  weight: ", "=").Replace(strings.TrimSpace(object.GetAnnotations()[e2etest.SplitAnnotation]))
	if text == "" {
		return noSplit
	}
	return strings.ReplaceAll(text, "\n", ", ")
}

// routed reads where an HTTPRoute sends requests: for each rule its backends with their
// weights, and the headers that it matches.
func routed(route *unstructured.Unstructured) string {
	var all []string
	for _, rule := range objects(route.Object, "spec", "rules") {
		var backends []string
		for _, ref := range objects(rule, "backendRefs") {
			backends = append(backends, fmt.Sprintf("%v=%v", ref["name"], ref["weight"]))
		}
		text := strings.Join(backends, ", ")
		for _, match := range objects(rule, "matches") {
			for _, header := range objects(match, "headers") {
				text += fmt.Sprintf(" with %v: %v", header["name"], header["value"])
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func objects(from map[string]any, fields ...string) []map[string]any {
	list, _, _ := unstructured.NestedSlice(from, fields...)
	found := make([]map[string]any, 0, len(list))
	for _, element := range list {
		if object, ok := element.(map[string]any); ok {
			found = append(found, object)
		}
	}
	return found
}

// exposure is what a faulty version has cost.
type exposure struct {
	// served is how many requests it has got, failed how many of them it failed.
	served, failed int
	// lasted is the time from its first request being sent to its last answer.
	lasted time.Duration
}

// exposureOf says what a version has cost, from answers in any order.
func exposureOf(answers []traffic.Answer, colour string) exposure {
	var e exposure
	var first, last time.Time
	for _, a := range answers {
		if a.Backend != colour && a.FailedBackend != colour {
			continue
		}
		if first.IsZero() || a.Sent.Before(first) {
			first = a.Sent
		}
		if a.Received.After(last) {
			last = a.Received
		}
		e.served++
		if a.Failed() {
			e.failed++
		}
	}
	e.lasted = last.Sub(first)
	return e
}
