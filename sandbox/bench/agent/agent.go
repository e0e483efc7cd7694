package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// startBar is the highest ratio of the time that the agent takes to that of the loop.
	startBar = 2
	// memoryBar is the highest ratio of the agent's memory to that of a bare cache.
	memoryBar = 2
	// resyncBar is how many requests the agent may make of objects that have not changed.
	resyncBar = 0

	// quietTime is how long an agent makes no write before it counts as steady.
	quietTime = 10 * time.Second
	// memoryTime is how long the agent and the bare cache run before their memory counts.
	memoryTime = 90 * time.Second
	// longest is how long the agent may take.
	longest = 20 * time.Minute
)

// launch starts an agent.
func (w *world) launch() (*proxyworld.Process, error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, err
	}
	w.agents++
	return proxyworld.Launch(exec.Command(w.agent, "--namespace", gauge.Namespace, "--leader-elect=false", "--metrics-address", "0",
		"--health-address", fmt.Sprintf("127.0.0.1:%d", 19100+w.agents), "--webhook-port", fmt.Sprint(19200+w.agents)), all)
}

// start measures how long the agent takes to make an HTTPScaledObject of each ScaledObject,
// beside a loop that applies the same objects.
func (w *world) start(ctx context.Context) error {
	gauge.Say("an agent makes %d HTTPScaledObjects", objects)
	before, err := w.requests(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	agent, err := w.launch()
	if err != nil {
		return err
	}
	defer agent.End()
	last, written, err := w.steady(ctx, agent)
	if err != nil {
		return err
	}
	took := last.Sub(began)
	cpu, err := agent.CPU()
	if err != nil {
		return err
	}
	manifests, err := w.manifests(ctx)
	if err != nil {
		return err
	}
	agent.End()
	gauge.Say("a loop applies them")
	began = time.Now()
	if err := w.applyAll(ctx, manifests); err != nil {
		return err
	}
	loop := time.Since(began)
	if err := w.deleteAll(ctx); err != nil {
		return err
	}
	of := took.Seconds() / loop.Seconds()
	table := gauge.NewTable(fmt.Sprintf("%d HTTPScaledObjects\ttime\twrites\tratio\tbar", objects))
	table.Row("the agent, from start to steady\t%.1f s\t%d\t%.2f\tat most %d.00 %s", took.Seconds(), written.total()-before.total(), of, startBar, gauge.Mark(of <= startBar))
	table.Row("a loop that applies them\t%.1f s\t%d\t\t", loop.Seconds(), len(manifests))
	table.Row("processor time of the agent\t%.1f s\t\t\t", cpu.Seconds())
	table.Print()
	return nil
}

// steady waits until an agent has made all HTTPScaledObjects and no write since, and returns
// when the last write was seen, and how many there had been.
func (w *world) steady(ctx context.Context, agent *proxyworld.Process) (time.Time, writes, error) {
	var last time.Time
	var before writes
	for deadline := time.Now().Add(longest); ; {
		if time.Now().After(deadline) {
			return last, nil, fmt.Errorf("the agent is not steady within %s\n%s", longest, agent.Log)
		}
		now, err := w.requests(ctx)
		if err != nil {
			return last, nil, err
		}
		if before == nil || now.total() != before.total() {
			last, before = time.Now(), now
		}
		if time.Since(last) > quietTime {
			n, err := w.made(ctx, gauge.Namespace)
			if err != nil || n == objects {
				return last, before, err
			}
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return last, nil, fmt.Errorf("%w\n%s", err, agent.Log)
		}
	}
}

// again runs another agent, which finds all as it is to be, and a bare cache of the
// ScaledObjects.
func (w *world) again(ctx context.Context) error {
	before, err := w.requests(ctx)
	if err != nil {
		return err
	}
	agent, err := w.launch()
	if err != nil {
		return err
	}
	defer agent.End()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	bare, err := proxyworld.Launch(exec.Command(w.barecache, "-scaledobjects"), all)
	if err != nil {
		return err
	}
	defer bare.End()
	gauge.Say("%s of an agent that has nothing to do, and of a bare cache of %d ScaledObjects", memoryTime, objects)
	if err := pause(ctx, memoryTime); err != nil {
		return err
	}
	after, err := w.requests(ctx)
	if err != nil {
		return err
	}
	made := after.since(before)
	table := gauge.NewTable("another agent, with nothing changed\twrites\tbar")
	table.Row("%d ScaledObjects\t%d\t%d %s", objects, made.total(), resyncBar, gauge.Mark(made.total() == resyncBar))
	for what, n := range made {
		table.Row("  %s\t%d\t", what, n)
	}
	table.Print()

	table = gauge.NewTable(fmt.Sprintf("memory with %d ScaledObjects\tresident\tat its peak\tratio\tbar", objects))
	var resident [2]float64
	for i, p := range []*proxyworld.Process{bare, agent} {
		if resident[i], err = p.Resident(); err != nil {
			return fmt.Errorf("%w\n%s", err, p.Log)
		}
		peak, err := p.Peak()
		if err != nil {
			return err
		}
		if i == 0 {
			table.Row("a bare cache of them\t%.0f MB\t%.0f MB\t\t", resident[i], peak)
			continue
		}
		of := resident[1] / resident[0]
		table.Row("the agent\t%.0f MB\t%.0f MB\t%.2f\tat most %d.00 %s", resident[i], peak, of, memoryBar, gauge.Mark(of <= memoryBar))
	}
	table.Print()
	return nil
}

// writes are requests that the API server has been asked to write with, by verb and resource.
type writes map[string]int

func (w writes) total() (n int) {
	for _, more := range w {
		n += more
	}
	return n
}

func (w writes) since(before writes) writes {
	more := writes{}
	for what, n := range w {
		if n > before[what] {
			more[what] = n - before[what]
		}
	}
	return more
}

var request = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)

// requests returns the writes that the API server has had, but for those of its own.
func (w *world) requests(ctx context.Context) (writes, error) {
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return nil, err
	}
	page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	found := writes{}
	for _, line := range request.FindAllStringSubmatch(string(page), -1) {
		labels := map[string]string{}
		for _, label := range strings.Split(line[1], ",") {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = strings.Trim(value, `"`)
		}
		switch labels["verb"] {
		case "APPLY", "PATCH", "POST", "PUT", "DELETE":
		default:
			continue
		}
		// The API server renews its own Lease, and keeps what it has given to Services.
		if labels["resource"] == "leases" || labels["resource"] == "ipaddresses" || strings.HasSuffix(labels["group"], ".k8s.io") && labels["group"] != "networking.k8s.io" {
			continue
		}
		n, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return nil, err
		}
		found[labels["verb"]+" "+labels["resource"]+"/"+labels["subresource"]] += int(n)
	}
	return found, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
