package main

import (
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// fallbackPortName is the name of the fallback Service's port.
const fallbackPortName = "fallback"

// fallback passes on the addresses to which kedify-proxies send requests that they have
// no endpoint for, and logs when there is no address. It is a prometheus.Collector.
type fallback struct {
	prometheus.Gauge
	service types.NamespacedName
	log     *slog.Logger
	pass    func([]netip.AddrPort)
}

func newFallback(service types.NamespacedName, log *slog.Logger, pass func([]netip.AddrPort)) *fallback {
	return &fallback{service: service, log: log, pass: pass, Gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "interceptor_fallback_addresses",
		Help: "Addresses of --fallback-service. With none, kedify-proxies answer 503 for a Service without endpoints.",
	})}
}

// update passes the addresses on. If there are none, why is the reason.
func (f *fallback) update(addresses []netip.AddrPort, why string) {
	f.Set(float64(len(addresses)))
	f.pass(addresses)
	if len(addresses) == 0 {
		f.log.Warn(fmt.Sprintf("kedify-proxies cannot hand over requests, and answer 503 for a Service without endpoints: --fallback-service is %s, and %s. Name the interceptor's own Service for the fallback port, as deploy/interceptor does", f.service, why))
		return
	}
	f.log.Info("kedify-proxies reach this interceptor by its Service", "service", f.service.String(), "addresses", addresses)
}
