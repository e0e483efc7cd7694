// Package webhook has the mutating webhook that makes kedify-http triggers external-push
// ones, and its certificate. Every agent serves it; the one that leads renews the certificate.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

// path is what the MutatingWebhookConfiguration calls.
const path = "/mutate-scaledobjects"

// Add adds the part to a manager.
func Add(mgr manager.Manager, s *agent.Settings, _ *events.Reporter) error {
	secret := client.ObjectKey{Namespace: s.Namespace, Name: s.WebhookSecret}
	reader := mgr.GetCache()
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Port: s.WebhookPort,
		// From the cache, so that a new one is served at once: kubelets take a minute to
		// show a pod what has changed in a Secret.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return certificateOf(hello.Context(), reader, secret)
			}
		}},
	})
	server.Register(path, &admission.Webhook{Handler: mutation{s.ScalerAddress}})
	return errors.Join(
		mgr.Add(server),
		// Connects to the server, and fails while it has no certificate.
		mgr.AddReadyzCheck("webhook", server.StartedChecker()),
		addIssuer(mgr, s, secret),
	)
}

// certificateOf returns the certificate that the Secret holds.
func certificateOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (*tls.Certificate, error) {
	var secret corev1.Secret
	if err := reader.Get(ctx, key, &secret); err != nil {
		return nil, fmt.Errorf("secret %s: %w: apply deploy/agent, which has it", key, err)
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w: the agent that leads fills it", key, err)
	}
	return &certificate, nil
}
