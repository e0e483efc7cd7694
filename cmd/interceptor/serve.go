package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func newServe(lookup func(string) (string, bool)) *cobra.Command {
	o, wrong := readOptions(lookup)
	cmd := &cobra.Command{
		Use:   name,
		Short: "Split requests by HTTPScaledObjects",
		Long: `Reads HTTPScaledObjects and the endpoints of their Services, and serves their requests, split as their
annotation http.kedify.io/weighted-backends says.

A flag wins over the environment variable named with it.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(wrong, o.validate()); err != nil {
				return err
			}
			log, err := newLogger(os.Stderr, o.level, o.format)
			if err != nil {
				return err
			}
			for _, line := range o.linesWithoutEffect(os.Environ(), cmd.Flags()) {
				log.Warn(line)
			}
			return serve(cmd.Context(), o, log)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// serve runs the interceptor until a signal ends it, or a listener fails.
func serve(ctx context.Context, o *options, log *slog.Logger) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	log.Info("starting", "version", version, "commit", commit)

	config, err := kube.RESTConfig(fmt.Sprintf("%s/%s", name, version))
	if err != nil {
		return err
	}
	p, err := proxy.New(o.proxy, log)
	if err != nil {
		return err
	}
	recorder, err := events.New(config, log)
	if err != nil {
		return err
	}
	var certificate *proxy.Certificate
	if o.certFile != "" {
		if certificate, err = proxy.LoadCertificate(o.certFile, o.keyFile, log); err != nil {
			return err
		}
	}
	x, err := newXDS(o, log, recorder.Update)
	if err != nil {
		return err
	}
	service, err := o.fallback()
	if err != nil {
		return err
	}
	fallback := newFallback(service, log, x.SetFallback)
	w, err := watch.New(config, watch.Options{
		Namespace:      o.watched,
		Policy:         o.policy,
		Log:            log,
		AddressService: service,
		AddressPort:    fallbackPortName,
		OnAddresses:    fallback.update,
		// In this order: the proxy, which serves requests, gets a table first.
		Consumers: []watch.Consumer{
			watch.ConsumerFunc(func(table *routes.Table, _ routes.Changes) { p.SetTable(table) }),
			x,
			recorder,
		},
	})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p, x, w, recorder, fallback, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	listeners, err := listen(ctx, o, p, p.Admin(recorder.Problems, w.Healthy), certificate, x, registry, log)
	if err != nil {
		return err
	}
	failed := listeners.serve()

	background, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { w.Run(background) })
	running.Go(func() { recorder.Run(background) })
	running.Go(func() { p.WatchMemory(background) })
	if certificate != nil {
		running.Go(func() { passCertificate(background, certificate, certificateLook, x.Server, log) })
	}

	select {
	case err = <-failed:
	case sig := <-signals:
		log.Info("draining: requests are served, and no new ones wanted", "signal", sig.String(), "for", o.drainDelay.String())
		err = drain(o, p, listeners, signals, log)
	}
	end()
	if err == nil {
		running.Wait()
	}
	return err
}

// errSecondSignal ends a drain.
var errSecondSignal = errors.New("a second signal: ended at once")

// drain keeps serving until no new requests should be sent here, and then lets the
// requests under way finish. The table is still updated meanwhile.
func drain(o *options, p *proxy.Proxy, listeners *listeners, signals <-chan os.Signal, log *slog.Logger) error {
	p.Drain()
	select {
	case <-signals:
		return errSecondSignal
	case <-time.After(o.drainDelay):
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.shutdownTimeout)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := listeners.shutdown(ctx); err != nil {
			log.Warn("the time for requests under way is over", "timeout", o.shutdownTimeout.String(), "error", err)
		}
	}()
	select {
	case <-signals:
		return errSecondSignal
	case <-over:
		log.Info("ended")
		return nil
	}
}
