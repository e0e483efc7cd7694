package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

const (
	// metricsBar is the highest ratio of the time of GetMetrics with many objects to that
	// with few.
	metricsBar = 2
	// metricsCalls are made one after the other.
	metricsCalls = 10_000

	// memoryBar is the highest ratio of the scaler's memory to that of a bare cache.
	memoryBar = 2
	// memoryTime is how long both run: the windows of all objects are full by then.
	memoryTime = 90 * time.Second

	scalerHealth = "127.0.0.1:19091"
	// interceptors is the Service whose pods the scaler takes for interceptors.
	interceptors = "loadreports"
)

var (
	// scalerAddress is where KEDA's pods reach the scaler, too.
	scalerAddress = netip.AddrPortFrom(cluster.NodeIP, 19090)
	// reportsAddress is where the scaler is told of requests.
	reportsAddress = netip.AddrPortFrom(cluster.NodeIP, 19092)
)

// scaling is a scaler and what it is told.
type scaling struct{ scaler, reports *gauge.Process }

// startScaling starts a scaler that is told of requests for all objects, and waits until it
// is ready.
func (w *world) startScaling(ctx context.Context) (s scaling, err error) {
	if err := w.AddEndpoint(ctx, interceptors, reportsAddress); err != nil {
		return s, err
	}
	if s.reports, err = gauge.Launch(exec.Command(w.loadreports, "-listen", reportsAddress.String(),
		"-namespace", gauge.Namespace, "-name", proxyworld.NameFormat, "-objects", fmt.Sprint(w.Objects))); err != nil {
		return s, err
	}
	if s.scaler, err = w.startScaler(ctx, interceptors, reportsAddress.Port()); err != nil {
		s.reports.End()
		return s, fmt.Errorf("%w\n%s", err, s.reports.Log)
	}
	return s, nil
}

// startScaler starts a scaler of the interceptors that are the endpoints of a Service, and
// waits until it is ready.
func (w *world) startScaler(ctx context.Context, service string, port uint16) (*gauge.Process, error) {
	p, err := gauge.Launch(exec.Command(w.scaler, "--address", scalerAddress.String(), "--health-address", scalerHealth,
		"--metrics-address", "0", "--namespace", gauge.Namespace, "--interceptor-service", service, "--interceptor-port", fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, 100*time.Millisecond, "http://"+scalerHealth+"/readyz", ""); err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

func (s scaling) end() {
	s.scaler.End()
	s.reports.End()
}

// answers are the times of GetMetrics, in microseconds.
type answers struct{ P50, P99 float64 }

// timeMetrics measures GetMetrics of a real scaler with the objects that exist.
func (w *world) timeMetrics(ctx context.Context) (took answers, err error) {
	s, err := w.startScaling(ctx)
	if err != nil {
		return took, err
	}
	defer s.end()
	gauge.Say("%d calls of GetMetrics with %d HTTPScaledObjects", metricsCalls, w.Objects)
	cmd := exec.CommandContext(ctx, w.getmetrics, "-address", scalerAddress.String(), "-namespace", gauge.Namespace, "-name", proxyworld.NameFormat,
		"-objects", fmt.Sprint(w.Objects), "-calls", fmt.Sprint(metricsCalls))
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return took, fmt.Errorf("%w\n%s", err, s.scaler.Log)
	}
	return took, json.Unmarshal(output, &took)
}

func (w *world) fewMetrics(ctx context.Context) (err error) {
	w.few, err = w.timeMetrics(ctx)
	return err
}

func (w *world) manyMetrics(ctx context.Context) error {
	many, err := w.timeMetrics(ctx)
	if err != nil {
		return err
	}
	table := gauge.NewTable(fmt.Sprintf("GetMetrics\t%d objects\t%d objects\tratio\tbar", fewObjects, w.Objects))
	table.Row("p50\t%.0f µs\t%.0f µs\t%s", w.few.P50, many.P50, gauge.AtMost(many.P50/w.few.P50, metricsBar))
	table.Row("p99\t%.0f µs\t%.0f µs\t%.2f\t", w.few.P99, many.P99, many.P99/w.few.P99)
	table.Print()
	return nil
}

// memory measures a scaler with many objects beside a bare cache of them, at the same time.
func (w *world) memory(ctx context.Context) error {
	s, err := w.startScaling(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	bare, err := gauge.Launch(exec.Command(w.barecache))
	if err != nil {
		return err
	}
	defer bare.End()
	gauge.Say("%s of a scaler, and of a bare cache, with %d HTTPScaledObjects", memoryTime, w.Objects)
	if err := gauge.Pause(ctx, memoryTime); err != nil {
		return err
	}
	return gauge.CompareMemory(fmt.Sprintf("%d HTTPScaledObjects", w.Objects), "the scaler", s.scaler, "a bare cache", bare, memoryBar)
}
