package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/tracing"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/withdrawal"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func newServe(lookup func(string) (string, bool)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: "Split requests by HTTPScaledObjects",
		Long: `Reads HTTPScaledObjects and the endpoints of their Services, and serves their requests, split as their
annotation http.kedify.io/weighted-backends says.

A flag wins over the environment variable named with it.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	o, wrong := settings.New(cmd.Flags(), lookup)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(wrong, o.Validate()); err != nil {
			return err
		}
		log, level, err := newLogger(os.Stderr, o.LogLevel, o.LogFormat)
		if err != nil {
			return err
		}
		for _, line := range o.WithoutEffect(os.Environ(), cmd.Flags()) {
			log.Warn(line)
		}
		return serve(cmd.Context(), o, log, level)
	}
	return cmd
}

// serve runs the interceptor until a signal ends it, or a listener fails.
func serve(ctx context.Context, o *settings.Settings, log *slog.Logger, level *slog.LevelVar) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGPIPE) // or a write to a closed standard output or error ends the process
	log.Info("starting", "version", version, "commit", commit)

	config, err := kube.RESTConfig(fmt.Sprintf("%s/%s", name, version))
	if err != nil {
		return err
	}
	traces := tracing.New(ctx, os.LookupEnv, version, log)
	o.Proxy.Tracer = traces.Tracer()
	p := proxy.New(o.Proxy, log)
	recorder, err := events.New(config, log)
	if err != nil {
		return err
	}
	var certificate *proxy.Certificate
	if o.CertFile != "" {
		if certificate, err = proxy.LoadCertificate(o.CertFile, o.KeyFile, log); err != nil {
			return err
		}
	}
	x, err := newXDS(o, p.Loads(), log, recorder.Update)
	if err != nil {
		return err
	}
	service, err := fallbackService(o)
	if err != nil {
		return err
	}
	fallback := newFallback(service, log, x.SetFallback)
	w, err := watch.New(config, watch.Options{
		Namespace:      o.WatchNamespace,
		Policy:         o.Policy,
		Log:            log,
		AddressService: service,
		AddressPort:    fallbackPortName,
		OnAddresses:    fallback.update,
		Renew:          withdrawal.Renew(o.APIServerTimeout),
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
	withdrawn := withdrawal.New(withdrawalOptions(o, p, x, w, log))
	registry := newRegistry(p, x, w, recorder, fallback, withdrawn, certificate)

	admin := http.NewServeMux()
	admin.Handle("/", p.Admin(recorder.Problems, w.Healthy))
	admin.Handle("GET "+withdrawal.Path, withdrawn)
	admin.Handle("GET "+acknowledged.Path, x.ListAcknowledged(withdrawn.Lost))
	admin.Handle(logLevelPath, logLevelHandler(level, log))
	listeners, err := listen(ctx, o, p, admin, certificate, x, registry, log)
	if err != nil {
		return err
	}
	failed := listeners.serve()

	background, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { w.Run(background) })
	running.Go(func() { recorder.Run(background) })
	running.Go(func() { withdrawn.Run(background) })
	running.Go(func() { p.WatchMemory(background) })
	running.Go(func() {
		p.WatchLimited(background, func(opened, resolved []routes.Problem) {
			recorder.Update(nil, routes.Changes{Opened: opened, Resolved: resolved})
		})
	})
	var accessLog sync.WaitGroup
	accessLog.Go(func() { p.WriteAccessLog(background, os.Stdout) })
	if certificate != nil {
		running.Go(func() { passCertificate(background, certificate, certificateInterval, x.Server, log) })
	}

	select {
	case err = <-failed:
	case sig := <-signals:
		log.Info("draining: requests are served, and no new ones wanted", "signal", sig.String(), "for", o.DrainDelay.String())
		err = drain(o, p, listeners, signals, log)
	}
	end()
	accessLog.Wait()
	if err == nil {
		traces.Shutdown()
		running.Wait()
	}
	return err
}

// withdrawalOptions are for asking the other pods of the fallback Service.
func withdrawalOptions(o *settings.Settings, p *proxy.Proxy, x *xdsServer, w *watch.Watch, log *slog.Logger) withdrawal.Options {
	return withdrawal.Options{
		Timeout: o.APIServerTimeout, LastSeen: w.LastSeen,
		Others: w.ServiceEndpoints, Port: o.AdminPort, Serving: p.Ready,
		Withdraw: func() { p.SetWithdrawn(true); x.Withdraw() },
		Resume:   func() { p.SetWithdrawn(false); x.Resume() },
		Log:      log,
	}
}

// errSecondSignal ends a drain.
var errSecondSignal = errors.New("a second signal: ended at once")

// drain keeps serving until no new requests should be sent here, and then lets the
// requests under way finish. The table is still updated meanwhile.
func drain(o *settings.Settings, p *proxy.Proxy, listeners *listeners, signals <-chan os.Signal, log *slog.Logger) error {
	p.Drain()
	select {
	case <-signals:
		return errSecondSignal
	case <-time.After(o.DrainDelay):
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.ShutdownTimeout)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := listeners.shutdown(ctx); err != nil {
			log.Warn("the time for requests under way is over", "timeout", o.ShutdownTimeout.String(), "error", err)
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
