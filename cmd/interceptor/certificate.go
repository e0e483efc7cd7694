package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/xds"
)

// certificateInterval is how often passCertificate checks for a new certificate.
const certificateInterval = 5 * time.Second

// passCertificate gives the certificate to kedify-proxies, and checks for a new one at
// each interval, until ctx ends.
func passCertificate(ctx context.Context, certificate *proxy.Certificate, interval time.Duration, to *xds.Server, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for passed := (*tls.Certificate)(nil); ; {
		if current, err := certificate.Get(nil); err == nil && current != passed {
			chain, key, err := inPEM(current)
			if err != nil {
				log.Error("the TLS certificate cannot be passed to kedify-proxies", "error", err)
			} else {
				to.SetCertificate(chain, key)
			}
			passed = current
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// inPEM encodes a certificate as Envoy reads it.
func inPEM(certificate *tls.Certificate) (chain, key []byte, err error) {
	for _, der := range certificate.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("key of the certificate: %w", err)
	}
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
