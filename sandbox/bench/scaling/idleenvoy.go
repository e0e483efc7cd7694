package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/proxyworld"
)

const (
	// idleBar is the highest ratio of an idle Envoy's processor time with load reports to
	// that without.
	idleBar = 3
	// idleObjects have two clusters each.
	idleObjects = 5000
	// settleTime is how long an Envoy is left alone once it serves the last object.
	settleTime = 10 * time.Second
	idleTime   = time.Minute
)

// idleEnvoy measures the processor time of an Envoy that has many clusters and no
// requests.
func (w *world) idleEnvoy(ctx context.Context) error {
	if err := w.Grow(ctx, idleObjects); err != nil {
		return err
	}
	interceptor, err := w.StartInterceptor(ctx, w.Processors.All)
	if err != nil {
		return err
	}
	defer interceptor.End()
	clusters := 2 * w.Objects
	var share [2]float64
	// Without load reports comes first: then the interceptor must have got none.
	for i, loadReports := range []bool{false, true} {
		gauge.Say("%s of an idle Envoy with %d clusters, with load reports: %v", idleTime, clusters, loadReports)
		if share[i], err = w.idleShare(ctx, loadReports); err != nil {
			return fmt.Errorf("%w\n%s", err, interceptor.Log)
		}
	}
	table := gauge.NewTable("an idle Envoy, share of a processor\twith load reports\twithout\tratio\tbar")
	of := share[1] / share[0]
	table.Row("%d clusters\t%.2f %%\t%.2f %%\t%.2f\tat most %d.00 %s", clusters, 100*share[1], 100*share[0], of, idleBar, gauge.Mark(of <= idleBar))
	table.Print()
	return nil
}

// idleShare returns the share of a processor that an idle Envoy takes.
func (w *world) idleShare(ctx context.Context, loadReports bool) (float64, error) {
	envoy, err := w.StartEnvoy(ctx, 2, loadReports)
	if err != nil {
		return 0, err
	}
	defer envoy.End()
	if err := pause(ctx, settleTime); err != nil {
		return 0, err
	}
	before, err := envoy.CPU()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, idleTime); err != nil {
		return 0, err
	}
	took := time.Since(began)
	after, err := envoy.CPU()
	if err != nil {
		return 0, err
	}
	_, page, err := proxyworld.Get(ctx, http.DefaultClient, proxyworld.MetricsURL, "")
	if err != nil {
		return 0, err
	}
	if reports, _ := proxyworld.Metric(page, "interceptor_load_reports_total"); (reports > 0) != loadReports {
		return 0, fmt.Errorf("the interceptor got %.0f load reports; expected some: %v", reports, loadReports)
	}
	return float64(after-before) / float64(took), nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
