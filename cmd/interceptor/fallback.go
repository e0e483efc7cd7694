package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// fallbackPortName is the name of the fallback Service's port.
const fallbackPortName = "fallback"

// ownNamespaceFile is the file from which a pod reads its own namespace.
const ownNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// fallbackService returns the name of the fallback Service; the zero value for none.
func fallbackService(o *settings.Settings) (types.NamespacedName, error) {
	if o.FallbackService == "" {
		return types.NamespacedName{}, nil
	}
	if namespace, name, ok := strings.Cut(o.FallbackService, "/"); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}, nil
	}
	own := o.PodNamespace
	if own == "" {
		text, err := os.ReadFile(ownNamespaceFile)
		if errors.Is(err, os.ErrNotExist) {
			// Outside of a cluster, where no kedify-proxy finds us anyway.
			return types.NamespacedName{}, nil
		}
		if err != nil {
			return types.NamespacedName{}, fmt.Errorf("the namespace of this pod, which --fallback-service is in: %w", err)
		}
		own = strings.TrimSpace(string(text))
	}
	return types.NamespacedName{Namespace: own, Name: o.FallbackService}, nil
}

// fallback passes on the addresses to which kedify-proxies send requests that they have
// no endpoint for, and logs when there is no address. It is a prometheus.Collector.
type fallback struct {
	addresses prometheus.Gauge
	service   types.NamespacedName // the zero value for none
	log       *slog.Logger
	pass      func([]netip.AddrPort)
}

func newFallback(service types.NamespacedName, log *slog.Logger, pass func([]netip.AddrPort)) *fallback {
	return &fallback{service: service, log: log, pass: pass, addresses: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "interceptor_fallback_addresses",
		Help: "Addresses of --fallback-service, if there is one. With 0, kedify-proxies answer 503 for a Service without endpoints.",
		// See [what to do](../how-to/troubleshooting.md#kedify-proxies-have-no-fallback).
	})}
}

// Describe is part of prometheus.Collector.
func (f *fallback) Describe(descs chan<- *prometheus.Desc) { f.addresses.Describe(descs) }

// Collect is part of prometheus.Collector. Without a fallback Service no address is missing.
func (f *fallback) Collect(collected chan<- prometheus.Metric) {
	if f.service.Name != "" {
		f.addresses.Collect(collected)
	}
}

// update passes the addresses on. If there are none, why is the reason.
func (f *fallback) update(addresses []netip.AddrPort, why string) {
	f.addresses.Set(float64(len(addresses)))
	f.pass(addresses)
	if len(addresses) == 0 {
		f.log.Warn(fmt.Sprintf("kedify-proxies cannot hand over requests, and answer 503 for a Service without endpoints: --fallback-service is %s, and %s. Name the interceptor's own Service for the fallback port, as deploy/interceptor does", f.service, why))
		return
	}
	f.log.Info("kedify-proxies reach this interceptor by its Service", "service", f.service.String(), "addresses", addresses)
}
