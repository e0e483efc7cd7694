package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	// startBar is the highest ratio of the time that the agent takes to that of the loop.
	startBar = 2
	// memoryBar is the highest ratio of the agent's memory to that of a bare cache.
	memoryBar = 2

	// quietTime is how long an agent makes no write before it counts as steady.
	quietTime = 10 * time.Second
	// memoryTime is how long the agent and the bare cache run before their memory counts.
	memoryTime = 90 * time.Second
	// longest is how long the agent may take.
	longest = 20 * time.Minute
)

// launch starts an agent. No two of them run at the same time.
func (w *world) launch() (*gauge.Process, error) {
	return gauge.Launch(exec.Command(w.agent, "--namespace", gauge.Namespace, "--leader-elect=false", "--metrics-address", "0",
		"--health-address", "127.0.0.1:19101", "--webhook-port", "19201"))
}

// start measures how long the agent takes to make an HTTPScaledObject of each ScaledObject,
// beside a loop that applies the same objects.
func (w *world) start(ctx context.Context) error {
	gauge.Say("an agent makes %d HTTPScaledObjects", objects)
	before, err := w.Requests(ctx, written)
	if err != nil {
		return err
	}
	began := time.Now()
	agent, err := w.launch()
	if err != nil {
		return err
	}
	defer agent.End()
	last, writes, err := w.steady(ctx, agent)
	if err != nil {
		return err
	}
	took := last.Sub(began)
	cpu, err := agent.CPU()
	if err != nil {
		return err
	}
	agent.End()
	gauge.Say("a loop applies them")
	loop, err := w.applyAll(ctx)
	if err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("%d HTTPScaledObjects\ttime\twrites\tratio\tbar", objects))
	table.Row("the agent, from start to steady\t%.1f s\t%d\t%s", took.Seconds(), writes-before, gauge.AtMost(took.Seconds()/loop.Seconds(), startBar))
	table.Row("a loop that applies them\t%.1f s\t%d\t\t", loop.Seconds(), objects)
	table.Row("processor time of the agent\t%.1f s\t\t\t", cpu.Seconds())
	table.Print()
	return nil
}

// steady waits until an agent has made all HTTPScaledObjects and no write since, and returns
// when the last write was seen, and how many the API server has had.
func (w *world) steady(ctx context.Context, agent *gauge.Process) (last time.Time, writes int, err error) {
	for deadline := time.Now().Add(longest); time.Now().Before(deadline); {
		now, err := w.Requests(ctx, written)
		if err != nil {
			return last, 0, err
		}
		if now != writes {
			last, writes = time.Now(), now
		}
		if time.Since(last) > quietTime {
			n, err := w.made(ctx)
			if err != nil || n == objects {
				return last, writes, err
			}
		}
		if err := gauge.Pause(ctx, 200*time.Millisecond); err != nil {
			return last, 0, err
		}
	}
	return last, 0, fmt.Errorf("the agent is not steady within %s\n%s", longest, agent.Log)
}

// again runs another agent, which finds all as it is to be, and a bare cache of the
// ScaledObjects.
func (w *world) again(ctx context.Context) error {
	before, err := w.Requests(ctx, written)
	if err != nil {
		return err
	}
	agent, err := w.launch()
	if err != nil {
		return err
	}
	defer agent.End()
	bare, err := gauge.Launch(exec.Command(w.barecache, "-scaledobjects"))
	if err != nil {
		return err
	}
	defer bare.End()
	gauge.Say("%s of an agent that has nothing to do, and of a bare cache of %d ScaledObjects", memoryTime, objects)
	if err := gauge.Pause(ctx, memoryTime); err != nil {
		return err
	}
	after, err := w.Requests(ctx, written)
	if err != nil {
		return err
	}
	table := gauge.NewTable("another agent, with nothing changed\twrites\tbar")
	table.Row("%d ScaledObjects\t%s", objects, gauge.Count(after-before, 0))
	table.Print()
	return gauge.CompareMemory(fmt.Sprintf("%d ScaledObjects", objects), "the agent", agent, "a bare cache", bare, memoryBar)
}

var writing = regexp.MustCompile(`verb="(APPLY|PATCH|POST|PUT|DELETE)"`)

// written counts the writes that the API server has had, but for those of its own: it renews
// its Lease, and keeps what it has given to Services, and objects of its own groups.
func written(labels string) bool {
	own := strings.Contains(labels, `resource="leases"`) || strings.Contains(labels, `resource="ipaddresses"`) ||
		strings.Contains(labels, `.k8s.io"`) && !strings.Contains(labels, `"networking.k8s.io"`)
	return writing.MatchString(labels) && !own
}
