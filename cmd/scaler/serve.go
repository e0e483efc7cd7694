package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/cluster"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/server"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/streams"
)

// shutdownTimeout is how long the parts of the scaler may take to stop.
const shutdownTimeout = 10 * time.Second

// settings are those of a scaler. Addresses are those to listen on.
type settings struct {
	address, healthAddress, metricsAddress string
	namespace, interceptorService          string
	interceptorPort                        uint16
	logLevel                               string
}

func newServe() *cobra.Command {
	o := new(settings)
	cmd := &cobra.Command{
		Use:   name,
		Short: "Scale by requests, as an external scaler of KEDA",
		Long: `Reads from all interceptors how many requests each HTTPScaledObject has, and answers KEDA's triggers of type
external-push.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.namespace == "" {
				return errors.New("--namespace is missing: set it to the namespace of the interceptors")
			}
			return serve(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.address, "address", ":9090", "address to which KEDA's operator connects, by gRPC without TLS")
	flags.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":2223", "address of /metrics for Prometheus; 0 for none")
	flags.StringVar(&o.namespace, "namespace", "keda", "namespace of the interceptors")
	flags.StringVar(&o.interceptorService, "interceptor-service", "keda-add-ons-http-interceptor-admin", "Service whose pods are the interceptors")
	flags.Uint16Var(&o.interceptorPort, "interceptor-port", 9090, "admin port of these pods")
	flags.StringVar(&o.logLevel, "log-level", "info", "least level logged: debug, info, warn or error")
	return cmd
}

// serve runs the scaler until the context is done, or a part of it fails.
func serve(ctx context.Context, o *settings) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level is %q: set it to debug, info, warn or error", o.logLevel)
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	logger := slog.New(handler)
	log.SetLogger(logr.FromSlogHandler(handler))
	klog.SetLogger(logr.FromSlogHandler(handler))
	logger.Info("starting", "version", version, "commit", commit)

	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	if err := cluster.Watch(ctx, mgr.GetCache()); err != nil {
		return err
	}
	f := figures.New(time.Now)
	proxies := &cluster.Proxies{
		Cache: mgr.GetCache(), Figures: f, Streams: streams.New(ctx, f, logger),
		Interceptors: client.ObjectKey{Namespace: o.namespace, Name: o.interceptorService}, Port: o.interceptorPort,
	}
	s := server.New(mgr.GetCache(), f, proxies.Ready)
	err = errors.Join(
		metrics.Registry.Register(s),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("figures", func(*http.Request) error { return proxies.Ready() }),
		mgr.Add(manager.RunnableFunc(proxies.Start)),
		// Once the caches are synced: until then KEDA finds the port closed.
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.address)
			if err != nil {
				return fmt.Errorf("--address: %w", err)
			}
			return s.Serve(ctx, l)
		})),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager whose caches hold what the scaler reads. All replicas serve:
// there is no leader.
func newManager(o *settings) (manager.Manager, error) {
	config, err := kube.RESTConfig(fmt.Sprintf("%s/%s", name, version))
	if err != nil {
		return nil, err
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	caches, err := cluster.CacheOptions(o.interceptorService)
	if err != nil {
		return nil, fmt.Errorf("--interceptor-service: %w", err)
	}
	timeout := shutdownTimeout
	return manager.New(config, manager.Options{
		Scheme: scheme, MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return cluster.Mapper(), nil },
		Cache: caches, GracefulShutdownTimeout: &timeout, HealthProbeBindAddress: o.healthAddress,
		Metrics: metricsserver.Options{BindAddress: o.metricsAddress},
	})
}
