package main

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/withdrawal"
)

// newRegistry returns the registry of all metrics. certificate is nil without one.
func newRegistry(p *proxy.Proxy, x *xdsServer, w *watch.Watch, recorder *events.Recorder, fallback *fallback, withdrawn *withdrawal.Withdrawal, certificate *proxy.Certificate) *prometheus.Registry {
	expiry := make(certificateExpiry)
	if certificate != nil {
		expiry["proxy"] = certificate.Get
	}
	if x.mutual != nil {
		expiry["xds"] = x.mutual.GetCertificate
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p, x, w, recorder, fallback, withdrawn, expiry, usage.Collector{p.Limits, x.Limits, w.Limits, withdrawn.Limits},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

var expiryDesc = prometheus.NewDesc("interceptor_certificate_expiration_timestamp_seconds",
	"When a certificate expires, in seconds since 1970. Of a chain, the certificate that expires first counts. proxy: of the embedded proxy. xds: of the xDS server.", []string{"certificate"}, nil)

// certificateExpiry is a prometheus.Collector of when these certificates expire.
type certificateExpiry map[string]func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// Describe is part of prometheus.Collector.
func (certificateExpiry) Describe(descs chan<- *prometheus.Desc) { descs <- expiryDesc }

// Collect is part of prometheus.Collector.
func (c certificateExpiry) Collect(collected chan<- prometheus.Metric) {
	for name, get := range c {
		certificate, err := get(nil)
		if err != nil {
			continue
		}
		var first time.Time
		for _, der := range certificate.Certificate {
			if parsed, err := x509.ParseCertificate(der); err == nil && (first.IsZero() || parsed.NotAfter.Before(first)) {
				first = parsed.NotAfter
			}
		}
		collected <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(first.Unix()), name)
	}
}
