package proxyworld

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/loadclient"
)

// Connections is how many connections send requests, each when the one before is answered.
const Connections = 64

// Result is what wrk measures in a round.
type Result struct {
	Requests int
	// Rate is requests a second.
	Rate float64
	// P50 and P99 are of the time from sending a request to having the whole answer.
	P50, P99 time.Duration
	// ProxyCPU is the processor time that the proxy took for a request.
	ProxyCPU time.Duration
	// Canary is the share of requests that the canary had.
	Canary float64
	// Busy is the share of a processor that clients and applications took.
	Busy float64
}

var (
	rate        = regexp.MustCompile(`(?m)^Requests/sec: +([\d.]+)$`)
	percentiles = regexp.MustCompile(`(?m)^ +(50|99)% +([\d.]+(?:us|ms|s))\b`)
)

// Run sends requests for a host to an address for some seconds, from the last processor, and
// fails unless all of them are answered with success. proxy may be nil.
func (w *World) Run(ctx context.Context, to netip.AddrPort, host string, seconds int, proxy *gauge.Process) (r Result, err error) {
	// The applications share the processor with the clients: a second thread would only wait
	// for the first.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before, err := w.spent(proxy)
	if err != nil {
		return r, err
	}
	cmd, err := loadclient.Wrk.Command(ctx, loadclient.Run{
		Target: to.String(), Host: host, Path: "/cart?id=1", Duration: time.Duration(seconds) * time.Second, Connections: Connections,
	})
	if err != nil {
		return r, err
	}
	output := &gauge.Tail{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := gauge.StartOn(w.processors[len(w.processors)-1:], cmd); err != nil {
		return r, err
	}
	if err := cmd.Wait(); err != nil {
		return r, fmt.Errorf("wrk: %w\n%s", err, output)
	}
	after, err := w.spent(proxy)
	if err != nil {
		return r, err
	}
	counts, err := loadclient.Wrk.Read(output.String())
	if err == nil && counts.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed", counts.Failed, counts.Requests)
	}
	if err == nil && counts.Requests == 0 {
		err = errors.New("no request is answered in time: is the machine busy?")
	}
	if err == nil {
		err = r.read(output.String())
	}
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, output)
	}
	stable, canary := float64(after.stable-before.stable), float64(after.canary-before.canary)
	r.Requests, r.Canary = counts.Requests, canary/(stable+canary)
	r.ProxyCPU = (after.proxy - before.proxy) / time.Duration(counts.Requests)
	client := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.Busy = (client + after.own - before.own).Seconds() / float64(seconds)
	return r, nil
}

// read reads what wrk has printed.
func (r *Result) read(output string) (err error) {
	found, times := rate.FindStringSubmatch(output), percentiles.FindAllStringSubmatch(output, -1)
	if found == nil || len(times) != 2 {
		return errors.New("wrk does not say how many requests a second there were, and how long they took")
	}
	if r.Rate, err = strconv.ParseFloat(found[1], 64); err != nil {
		return err
	}
	if r.P50, err = time.ParseDuration(times[0][2]); err != nil {
		return err
	}
	r.P99, err = time.ParseDuration(times[1][2])
	return err
}
