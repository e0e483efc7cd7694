package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/ingress"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/kedifyproxy"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/objects"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/webhook"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// shutdownTimeout is how long the parts of the agent may take to stop.
const shutdownTimeout = 10 * time.Second

// flags are the flags of an agent that are not agent.Settings.
type flags struct {
	agent.Settings
	healthAddress, metricsAddress string
	logLevel                      string
	leaderElection                bool
}

func newServe() *cobra.Command {
	o := new(flags)
	cmd := &cobra.Command{
		Use:   name,
		Short: "Make HTTPScaledObjects from ScaledObjects, and point Ingresses at kedify-proxy",
		Long: `Makes an HTTPScaledObject from each ScaledObject with a trigger of type kedify-http, and points the Ingresses of
those with trafficAutowire: ingress at kedify-proxy.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Namespace == "" {
				return errors.New("--namespace is missing: set it to the namespace of the agent")
			}
			if o.ScalerAddress == "" {
				o.ScalerAddress = "keda-add-ons-http-external-scaler." + o.Namespace + ":9090"
			}
			return serve(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the agent, the interceptors and the scalers (default: that of POD_NAMESPACE)")
	f.StringVar(&o.ScalerAddress, "scaler-address", "", "scalerAddress of triggers (default: keda-add-ons-http-external-scaler.NAMESPACE:9090)")
	f.StringVar(&o.InterceptorService, "interceptor-service", "keda-add-ons-http-interceptor-admin", "Service whose pods are the interceptors")
	f.Uint16Var(&o.InterceptorPort, "interceptor-port", 9090, "admin port of these pods")
	f.BoolVar(&o.KedifyProxy, "kedify-proxy", true, "make a kedify-proxy in each namespace that has none and needs one")
	f.StringVar(&o.KedifyProxyConfigMap, "kedify-proxy-configmap", "kedify-agent-kedify-proxy", "ConfigMap with the manifests of kedify-proxy")
	f.BoolVar(&o.OwnIngresses, "own-ingresses", true, "make an Ingress of the agent's own beside each wired Ingress, so that its controller knows the backends before they are used. Turn it off if each Ingress gets a load balancer of its own")
	f.DurationVar(&o.LeaveAlone, "autowire-cooldown", time.Hour, "how long the agent leaves an Ingress alone that somebody else writes back five times in ten minutes")
	f.IntVar(&o.WebhookPort, "webhook-port", 9443, "port to which the API server sends ScaledObjects, by HTTPS")
	f.StringVar(&o.WebhookService, "webhook-service", "kedify-agent", "Service in front of that port; the certificate is for its name")
	f.StringVar(&o.WebhookSecret, "webhook-secret", "kedify-agent-webhook", "Secret with the certificate of that port, which the agent fills")
	f.StringVar(&o.WebhookConfiguration, "webhook-configuration", "kedify-agent", "MutatingWebhookConfiguration whose caBundle the agent fills")
	f.BoolVar(&o.leaderElection, "leader-elect", true, "let one of several agents write, by the Lease kedify-agent")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.metricsAddress, "metrics-address", ":2223", "address of /metrics for Prometheus; 0 for none")
	f.StringVar(&o.logLevel, "log-level", "info", "least level logged: debug, info, warn or error")
	return cmd
}

// serve runs the agent until the context is done, or a part of it fails.
func serve(ctx context.Context, o *flags) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level is %q: set it to debug, info, warn or error", o.logLevel)
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	log.SetLogger(logr.FromSlogHandler(handler))
	klog.SetLogger(logr.FromSlogHandler(handler))
	slog.New(handler).Info("starting", "version", version, "commit", commit)

	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	reporter := events.NewReporter(mgr.GetEventRecorderFor(agent.Name))
	err = errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		webhook.Add(mgr, &o.Settings, reporter),
		objects.Add(mgr, &o.Settings, reporter),
		ingress.Add(mgr, &o.Settings, reporter),
		kedifyproxy.Add(mgr, &o.Settings, reporter),
	)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager of the agent's parts.
func newManager(o *flags) (manager.Manager, error) {
	config, err := kube.RESTConfig(fmt.Sprintf("kedify-%s/%s", name, version))
	if err != nil {
		return nil, err
	}
	scheme, err := agent.Scheme()
	if err != nil {
		return nil, err
	}
	caches, err := cacheOptions(o)
	if err != nil {
		return nil, err
	}
	timeout := shutdownTimeout
	return manager.New(config, manager.Options{
		Scheme: scheme, Cache: caches, GracefulShutdownTimeout: &timeout,
		HealthProbeBindAddress: o.healthAddress, Metrics: metricsserver.Options{BindAddress: o.metricsAddress},
		LeaderElection: o.leaderElection, LeaderElectionID: agent.Name, LeaderElectionNamespace: o.Namespace,
		LeaderElectionReleaseOnCancel: true,
	})
}

// cacheOptions are those of a cache that holds no more of an object than a part of the agent
// reads.
func cacheOptions(o *flags) (cache.Options, error) {
	ofProxies, err := labels.NewRequirement(discoveryv1.LabelServiceName, selection.In, []string{o.InterceptorService, agent.ProxyService})
	if err != nil {
		return cache.Options{}, fmt.Errorf("--interceptor-service: %w", err)
	}
	// One object, which is all that RBAC allows.
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector(metav1.ObjectNameField, name) }
	own := func(name string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: named(name)}}}
	}
	byObject := map[client.Object]cache.ByObject{
		&discoveryv1.EndpointSlice{}:                {Label: labels.NewSelector().Add(*ofProxies)},
		&corev1.Secret{}:                            own(o.WebhookSecret),
		&corev1.ConfigMap{}:                         own(o.KedifyProxyConfigMap),
		&admissionv1.MutatingWebhookConfiguration{}: {Field: named(o.WebhookConfiguration)},
	}
	maps.Copy(byObject, objects.Cached())
	return cache.Options{DefaultTransform: objects.Default, ByObject: byObject}, nil
}
