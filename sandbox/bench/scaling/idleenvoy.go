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
	interceptor, err := w.StartInterceptor(ctx)
	if err != nil {
		return err
	}
	defer interceptor.End()
	var took [2]time.Duration
	// Without load reports comes first: then the interceptor must have got none.
	for i, loadReports := range []bool{false, true} {
		gauge.Say("%s of an idle Envoy with %d clusters, with load reports: %v", idleTime, 2*w.Objects, loadReports)
		if took[i], err = w.idleFor(ctx, loadReports); err != nil {
			return fmt.Errorf("%w\n%s", err, interceptor.Log)
		}
	}
	table := gauge.NewTable("an idle Envoy, processor time in " + idleTime.String() + "\twith load reports\twithout\tratio\tbar")
	table.Row("%d clusters\t%s\t%s\t%s", 2*w.Objects, took[1], took[0], gauge.AtMost(took[1].Seconds()/took[0].Seconds(), idleBar))
	table.Print()
	return nil
}

// idleFor returns the processor time that an idle Envoy takes.
func (w *world) idleFor(ctx context.Context, loadReports bool) (time.Duration, error) {
	envoy, err := w.StartEnvoy(ctx, 2, loadReports)
	if err != nil {
		return 0, err
	}
	defer envoy.End()
	if err := gauge.Pause(ctx, settleTime); err != nil {
		return 0, err
	}
	before, err := envoy.CPU()
	if err != nil {
		return 0, err
	}
	if err := gauge.Pause(ctx, idleTime); err != nil {
		return 0, err
	}
	after, err := envoy.CPU()
	if err != nil {
		return 0, err
	}
	_, page, err := gauge.Get(ctx, http.DefaultClient, proxyworld.MetricsURL, "")
	if err != nil {
		return 0, err
	}
	reports, err := gauge.Metric(page, "interceptor_load_reports_total", gauge.All)
	if err == nil && (reports > 0) != loadReports {
		err = fmt.Errorf("the interceptor got %.0f load reports; expected some: %v", reports, loadReports)
	}
	return after - before, err
}
