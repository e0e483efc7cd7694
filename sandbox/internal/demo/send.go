package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

const (
	// rate is how many requests are sent a second, and connections how many
	// connections there are for them, which the Service spreads over the proxies.
	rate        = 100
	connections = 4

	// enough is how many requests a step gets at least: some more than it takes to
	// judge it.
	enough = leastJudged + 20

	// servedInARow is how many requests on new connections have to be answered
	// before the demo takes the proxies for ready: the Service gives those to
	// each of them in turn.
	servedInARow = 20
	servedTime   = 30 * time.Second
)

// startRequests waits until the sample's host is served, and begins to send
// requests to it.
func (p *player) startRequests(ctx context.Context, client dynamic.Interface) error {
	object, err := client.Resource(cluster.HTTPScaledObjectGVR).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("HTTPScaledObject %s/%s: %w", namespace, name, err)
	}
	hosts, _, err := unstructured.NestedStringSlice(object.Object, "spec", "hosts")
	if err != nil || len(hosts) == 0 {
		return fmt.Errorf("HTTPScaledObject %s/%s: spec.hosts: expected a host to send requests to (%w)", namespace, name, err)
	}
	options := traffic.Options{Target: p.proxy.address(), Host: hosts[0], Rate: rate, Connections: connections, InTurn: true}
	if err := p.screen.Sayf(Dim, "requests: %d a second, as of  curl -H 'Host: %s' http://%s/color", rate, options.Host, options.Target); err != nil {
		return err
	}
	seen, _ := p.timeline.Last()
	p.live.Versions.New, _ = versionOf(seen.Image)
	if err := awaitServed(ctx, options, p.live.Versions.New); err != nil {
		return err
	}
	p.load, err = traffic.Start(options)
	return err
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

// awaitRequests waits until enough requests after a mark are answered to judge
// them, even if an annotation comes at once.
func (p *player) awaitRequests(ctx context.Context, from traffic.Mark) error {
	err := p.until(ctx, servedTime, func(Seen) (bool, error) {
		return answeredBefore(p.load.Since(from), time.Now().Add(-ahead)) >= enough, nil
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%d requests are not answered: %w", enough, err)
	}
	return err
}

// answeredBefore counts the answers that were there at a time.
func answeredBefore(answers []traffic.Answer, at time.Time) int {
	n := 0
	for _, a := range answers {
		if a.Received.Before(at) {
			n++
		}
	}
	return n
}

// enoughRequests says whether the share of the split that is there now can be
// judged, even if another takes its place at once.
func (p *player) enoughRequests(now Seen) bool {
	var since time.Time
	for _, seen := range slices.Backward(p.timeline.Seen()) {
		if seen.Split != now.Split {
			break
		}
		since = seen.At
	}
	answers := p.load.Since(0)
	settled, _ := slices.BinarySearchFunc(answers, since.Add(settle), func(a traffic.Answer, at time.Time) int {
		return a.Sent.Compare(at)
	})
	return answeredBefore(answers[settled:], time.Now().Add(-ahead)) >= enough
}

// countRequests takes in the answers there are by now. A log gets a line on them
// every now and then; a terminal has its panel.
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
