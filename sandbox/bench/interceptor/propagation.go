package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// changes is even, so that all objects end as they began.
	changes     = 150
	changeEvery = 100 * time.Millisecond
	// pollEvery is the time between two requests that look for the change. It
	// bounds the precision of the figures.
	pollEvery = time.Millisecond
	// longestChange is the time after which a change is considered lost.
	longestChange = 20 * time.Second
	starts        = 3
)

// carry measures the interceptor with the objects that exist: how long a weight
// takes from the API server to the first request under it, with the embedded proxy
// and then with an Envoy, and the memory that is used.
func (w *world) carry(ctx context.Context, f *gauge.Table) error {
	interceptor, err := w.StartInterceptor(ctx, w.Processors.All)
	if err != nil {
		return err
	}
	defer interceptor.End()
	if w.parts.Has("propagation") {
		gauge.Say("%d changes of %d HTTPScaledObjects, one each %s, to the embedded proxy", changes, w.Objects, changeEvery)
		times, err := w.flips(ctx, "http://"+proxyworld.InterceptorAddress.String()+"/")
		if err != nil {
			return fmt.Errorf("embedded proxy: %w\n%s", err, interceptor.Log)
		}
		times.print(f, embedded, w.Objects, 50*time.Millisecond)
	}
	alone, err := interceptor.Resident()
	if err != nil {
		return err
	}
	gauge.Say("%d HTTPScaledObjects for an Envoy", w.Objects)
	began := time.Now()
	fleet, err := w.StartEnvoy(ctx, 2, true)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, interceptor.Log)
	}
	defer fleet.End()
	took := time.Since(began)
	if w.parts.Has("propagation") {
		gauge.Say("the same changes to Envoy")
		times, err := w.flips(ctx, "http://"+proxyworld.EnvoyAddress.String()+"/")
		if err != nil {
			return fmt.Errorf("Envoy: %w\n%s\n%s", err, fleet.Log, interceptor.Log)
		}
		times.print(f, envoyName, w.Objects, 100*time.Millisecond)
	}
	return w.printMemory(ctx, f, interceptor, fleet, alone, took)
}

// startUp measures the time from starting the process until it is ready. The API
// server has answered the same lists before.
func (w *world) startUp(ctx context.Context, f *gauge.Table) error {
	gauge.Say("start to ready with %d HTTPScaledObjects", w.Objects)
	var took []float64
	for range starts {
		began := time.Now()
		p, err := w.StartInterceptor(ctx, w.Processors.All)
		if err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds())
		p.End()
	}
	f.Row("start to ready, %d objects\t%.2f s\t", w.Objects, gauge.Median(took))
	return nil
}

// flips are the times from changes to the first requests under them: counted from
// just before the patch was sent, and from when the API server had answered it. The
// second is negative if the request came first.
type flips struct{ fromSent, fromAnswered []time.Duration }

func (t *flips) print(f *gauge.Table, who string, objects int, bar time.Duration) {
	slices.Sort(t.fromSent)
	slices.Sort(t.fromAnswered)
	p99 := gauge.Quantile(t.fromSent, 0.99)
	met := "" // the bar is for fewer objects
	if objects < manyObjects {
		met = fmt.Sprintf("p99 under %s %s", bar, gauge.Mark(p99 < bar))
	}
	f.Row("annotation patched to first request, %d objects, %s\tp50 %.1f ms, p99 %.1f ms\t%s", objects, who, gauge.Milliseconds(gauge.Quantile(t.fromSent, 0.5)), gauge.Milliseconds(p99), met)
	f.Row("  of it after the API server had answered\tp50 %.1f ms, p99 %.1f ms\t", gauge.Milliseconds(gauge.Quantile(t.fromAnswered, 0.5)), gauge.Milliseconds(gauge.Quantile(t.fromAnswered, 0.99)))
}

// flips changes one object after the other, each from all for the stable side to
// all for the canary, and then back.
func (w *world) flips(ctx context.Context, url string) (*flips, error) {
	times := &flips{}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	next := time.NewTicker(changeEvery)
	defer next.Stop()
	for number := range changes {
		i := 100 + number/2*7%(w.Objects-100) // not the object that throughput is measured with
		canary, expected := 100, "canary"
		if number%2 == 1 {
			canary, expected = 0, "stable"
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		body, err := w.ask(ctx, client, url, proxyworld.Host(i))
		if err != nil {
			return nil, err
		}
		if body == expected {
			return nil, fmt.Errorf("%s answers %q before it is to", proxyworld.Host(i), body)
		}
		sent := time.Now()
		var answered time.Time
		patched := make(chan error, 1)
		go func() {
			err := w.SetWeight(ctx, i, canary)
			answered = time.Now()
			patched <- err
		}()
		seen, err := w.until(ctx, client, url, proxyworld.Host(i), expected)
		if err == nil {
			err = <-patched
		}
		if err != nil {
			return nil, err
		}
		times.fromSent = append(times.fromSent, seen.Sub(sent))
		times.fromAnswered = append(times.fromAnswered, seen.Sub(answered))
	}
	return times, nil
}

// until requests a page until its content is expected, and returns when that was.
func (w *world) until(ctx context.Context, client *http.Client, url, host, expected string) (time.Time, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for deadline := time.Now().Add(longestChange); ; {
		body, err := w.ask(ctx, client, url, host)
		now := time.Now()
		switch {
		case err != nil:
			return now, err
		case body == expected:
			return now, nil
		case now.After(deadline):
			return now, fmt.Errorf("%s still answers %q after %s", host, body, longestChange)
		}
		<-poll.C
	}
}

func (w *world) ask(ctx context.Context, client *http.Client, url, host string) (string, error) {
	code, body, err := proxyworld.Get(ctx, client, url, host)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", host, code, strings.TrimSpace(body))
	}
	return body, err
}
