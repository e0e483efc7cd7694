package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// activeStat counts the connections of clients to a kedify-proxy. (Its admin
// listener has counts of its own.)
const activeStat = "http.kedify-proxy.downstream_cx_active"

// olderAdmin is the address of Envoy's admin interface in bootstraps that earlier
// versions printed.
const olderAdmin = "http://127.0.0.1:9901"

// drainPoll is how often the connections are counted.
const drainPoll = 500 * time.Millisecond

func newDrain() *cobra.Command {
	var admin string
	var delay, timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Drain a kedify-proxy, as its preStop hook",
		Long: `Has an Envoy say to probes and clients that it is leaving, and waits until its clients are gone and no new ones
can come, or the time is over. Neither is an error: what then still runs ends with the pod.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			d := drainer{admin: strings.TrimSuffix(admin, "/"), delay: delay, out: cmd.OutOrStdout()}
			if !cmd.Flags().Changed("admin") {
				d.older = olderAdmin
			}
			return d.run(ctx, timeout)
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "http://127.0.0.1:9902", "admin address of the Envoy; by default port 9901 is asked, too, if nothing listens here")
	cmd.Flags().DurationVar(&delay, "delay", 5*time.Second, "how long to wait at least, until nobody sends new clients to the pod; part of --timeout")
	cmd.Flags().DurationVar(&timeout, "timeout", 25*time.Second, "how long to wait at most; less than the pod's terminationGracePeriodSeconds")
	return cmd
}

type drainer struct {
	// older is the address that is tried when nothing listens at admin; "" for none.
	admin, older string
	// delay is how long new clients may still be sent to the pod. Until it is over,
	// the drain goes on even without clients: the next may be on its way.
	delay time.Duration
	out   io.Writer
}

func (d *drainer) run(ctx context.Context, timeout time.Duration) error {
	for _, step := range []struct{ path, what string }{
		{"/healthcheck/fail", "probes are told that it is leaving"},
		{"/drain_listeners?graceful&skip_exit", "clients are told to leave with their next answers"},
	} {
		if _, err := d.ask(ctx, http.MethodPost, step.path); err != nil {
			return err
		}
		fmt.Fprintln(d.out, step.what)
	}
	alone := time.Now().Add(d.delay)
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	last := -1
	for {
		active, err := d.active(ctx)
		if ctx.Err() == nil {
			if err != nil {
				return err
			}
			if active == 0 && !time.Now().Before(alone) {
				fmt.Fprintln(d.out, "drained: no connection is left")
				return nil
			}
			if active != last {
				fmt.Fprintf(d.out, "connections of clients left: %d\n", active)
				last = active
			}
		}
		select {
		case <-ctx.Done():
			fmt.Fprintf(d.out, "the %v are over; connections that end with the pod: %d\n", timeout, max(last, 0))
			return nil
		case <-tick.C:
		}
	}
}

// active counts the connections of clients.
func (d *drainer) active(ctx context.Context) (int, error) {
	pattern := "^" + strings.ReplaceAll(activeStat, ".", `\.`) + "$"
	body, err := d.ask(ctx, http.MethodGet, "/stats?filter="+url.QueryEscape(pattern)+"&format=json")
	if err != nil {
		return 0, err
	}
	var stats struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int    `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(body, &stats); err != nil {
		return 0, fmt.Errorf("%s/stats: %w", d.admin, err)
	}
	for _, stat := range stats.Stats {
		if stat.Name == activeStat {
			return stat.Value, nil
		}
	}
	return 0, nil // an Envoy that never had a listener has no such count
}

func (d *drainer) ask(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.admin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) && d.older != "" {
		d.admin, d.older = d.older, ""
		return d.ask(ctx, method, path)
	}
	if err != nil {
		return nil, fmt.Errorf("no Envoy answers: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s%s: %s: %s", method, d.admin, path, response.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}
