package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// rate is how many requests are sent a second, and connections how many
	// connections there are for them, which the Service spreads over the proxies.
	rate        = 100
	connections = 4

	// enough is how many requests a step gets at least: some more than it takes to
	// judge it.
	enough = leastJudged + 20

	// servedInARow is how many requests on new connections have to be answered before
	// the demo takes the proxies for ready: the Service gives new connections to each
	// proxy in turn.
	servedInARow = 20
	servedTime   = 30 * time.Second
)

// startRequests waits until the sample's host is served, and begins to send requests
// to it. If the Rollout sets a header route, as many are sent with its header.
func (p *player) startRequests(ctx context.Context, client dynamic.Interface) error {
	options, err := p.setting.target(ctx, client, p.proxy)
	if err != nil {
		return err
	}
	p.walk.Address, _, _ = net.SplitHostPort(options.Target)
	options.Rate, options.Connections, options.InTurn = cmp.Or(p.setting.rate, rate), connections, true
	if err := p.screen.Sayf(Dim, "requests: %.0f a second, as of  curl -H 'Host: %s' http://%s%s", options.Rate, options.Host, options.Target, options.Path); err != nil {
		return err
	}
	name, value := p.canary.header()
	if name != "" {
		p.header = headerText(name, value)
		if err := p.screen.Sayf(Dim, "and %d a second with  -H '%s'", rate, p.header); err != nil {
			return err
		}
	}
	seen, _ := p.timeline.Last()
	p.live.Versions.New, _ = versionOf(seen.Image)
	if err := awaitServed(ctx, options, p.live.Versions.New); err != nil {
		return err
	}
	if p.load, err = traffic.Start(options); err != nil || name == "" {
		return err
	}
	options.Header = http.Header{name: {value}}
	p.headerLoad, err = traffic.Start(options)
	return err
}

// target returns where requests for the sample are sent.
func (s setting) target(ctx context.Context, client dynamic.Interface, proxy Proxy) (traffic.Options, error) {
	object, err := client.Resource(s.resource).Namespace(s.namespace).Get(ctx, s.object, metav1.GetOptions{})
	if err != nil {
		return traffic.Options{}, fmt.Errorf("%s %s/%s: %w", s.resource.Resource, s.namespace, s.object, err)
	}
	switch proxy {
	case Gateway:
		return routeTarget(ctx, client, object)
	case Ingress:
		return ingressTarget(ctx, client)
	}
	hosts, _, err := unstructured.NestedStringSlice(object.Object, "spec", "hosts")
	if err != nil || len(hosts) == 0 {
		return traffic.Options{}, fmt.Errorf("HTTPScaledObject %s/%s: spec.hosts: expected a host to send requests to (%w)", s.namespace, s.object, err)
	}
	return traffic.Options{Target: proxy.address(), Host: hosts[0], Path: "/color"}, nil
}

// routeTarget returns where requests for an HTTPRoute are sent: to the address of its
// Gateway, which it waits for, with its host and the path of its first rule.
func routeTarget(ctx context.Context, client dynamic.Interface, route *unstructured.Unstructured) (traffic.Options, error) {
	where := fmt.Sprintf("HTTPRoute %s/%s", route.GetNamespace(), route.GetName())
	hosts, _, err := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	parents, rules := objects(route.Object, "spec", "parentRefs"), objects(route.Object, "spec", "rules")
	if err != nil || len(hosts) == 0 || len(parents) == 0 || len(rules) == 0 {
		return traffic.Options{}, fmt.Errorf("%s: spec: expected a host, a Gateway and a rule to send requests to (%w)", where, err)
	}
	path := ""
	for _, match := range objects(rules[0], "matches") {
		path, _, _ = unstructured.NestedString(match, "path", "value")
	}
	namespace, _ := parents[0]["namespace"].(string)
	name, _ := parents[0]["name"].(string)
	ctx, cancel := context.WithTimeout(ctx, servedTime)
	defer cancel()
	for {
		gateway, err := client.Resource(gatewayGVR).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return traffic.Options{}, fmt.Errorf("%s: Gateway %s/%s: %w", where, namespace, name, err)
		}
		for _, address := range objects(gateway.Object, "status", "addresses") {
			return traffic.Options{Target: net.JoinHostPort(fmt.Sprint(address["value"]), "80"), Host: hosts[0], Path: strings.TrimSuffix(path, "/") + "/color"}, nil
		}
		select {
		case <-ctx.Done():
			return traffic.Options{}, fmt.Errorf("%s: Gateway %s/%s has no address: %w", where, namespace, name, ctx.Err())
		case <-time.After(redrawInterval):
		}
	}
}

// awaitServed waits until every proxy behind the target has answered with a
// colour.
func awaitServed(ctx context.Context, options traffic.Options, colour string) error {
	options.NewConnections = true
	load, err := traffic.Start(options)
	if err != nil {
		return err
	}
	defer load.Stop()
	ctx, cancel := context.WithTimeout(ctx, servedTime)
	defer cancel()
	problem := "no answer"
	for from := traffic.Mark(0); ; {
		answers, err := load.Await(ctx, from, servedInARow)
		if err != nil {
			return fmt.Errorf("%s is not served by %s: %w; the last that was not: %s", options.Host, options.Target, err, problem)
		}
		good := true
		for _, a := range answers {
			if a.Backend != colour {
				good, from, problem = false, traffic.Mark(a.Number+1), a.String()
			}
		}
		if good {
			return nil
		}
	}
}

// awaitRequests waits until enough requests of an act are answered to judge them, even
// if a split comes at once.
func (p *player) awaitRequests(ctx context.Context, act played) error {
	err := p.until(ctx, servedTime, func(Seen) (bool, error) {
		before := time.Now().Add(-ahead)
		return answeredBefore(p.load.Since(act.requests), before) >= enough &&
			(p.headerLoad == nil || answeredBefore(p.headerLoad.Since(act.headerRequests), before) >= enough), nil
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%d requests are not answered: %w", enough, err)
	}
	return err
}

// answeredBefore counts the answers that were received before a time.
func answeredBefore(answers []traffic.Answer, at time.Time) int {
	n := 0
	for _, a := range answers {
		if a.Received.Before(at) {
			n++
		}
	}
	return n
}

// enoughRequests says whether enough requests are answered to judge the share of the
// present split, even if another split takes its place at once.
func (p *player) enoughRequests(now Seen) bool {
	var since time.Time
	for _, seen := range slices.Backward(p.timeline.Seen()) {
		if seen.Split != now.Split {
			break
		}
		since = seen.At
	}
	for _, load := range p.loads() {
		answers := load.Since(0)
		settled, _ := slices.BinarySearchFunc(answers, since.Add(p.proxy.settle()), func(a traffic.Answer, at time.Time) int {
			return a.Sent.Compare(at)
		})
		if answeredBefore(answers[settled:], time.Now().Add(-ahead)) < enough {
			return false
		}
	}
	return true
}

// loads returns the senders of requests: one without a header, and one with it if the
// Rollout sets a header route.
func (p *player) loads() []*traffic.Load {
	if p.headerLoad == nil {
		return []*traffic.Load{p.load}
	}
	return []*traffic.Load{p.load, p.headerLoad}
}

// countRequests takes in the answers that have been received. A log gets a line on
// them every liveInterval; a terminal has its panel.
func (p *player) countRequests() error {
	if p.load == nil {
		return nil
	}
	all := p.load.Since(0)
	p.live.add(all, p.counted)
	p.counted = len(all)
	if p.screen.terminal || time.Since(p.lastLine) < liveInterval {
		return nil
	}
	return p.sayRequests()
}

// sayRequests writes a line on the latest requests.
func (p *player) sayRequests() error {
	p.lastLine = time.Now()
	return p.say(Plain, p.live.line())
}
