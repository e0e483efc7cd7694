package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

const (
	// lifetime is for how long a certificate is valid, and renewal how long before its end
	// it is replaced.
	lifetime, renewal = 365 * 24 * time.Hour, 90 * 24 * time.Hour
	// look is how often the end is looked at.
	look = 12 * time.Hour
	// caKey is the key of a Secret with the certificate of the authority.
	caKey = "ca.crt"
)

// issuer keeps a valid certificate in the Secret, and its authority in the
// MutatingWebhookConfiguration.
//
// The certificates are made by cert-controller, but this is not its CertRotator, which wants
// to read all Secrets of the namespace, KEDA's among them, and to have this one mounted.
// There is no key of an authority to be kept either: each certificate has one of its own.
type issuer struct {
	client        client.Client
	rotator       rotator.CertRotator
	secret        client.ObjectKey
	configuration client.ObjectKey
}

func addIssuer(mgr manager.Manager, s *agent.Settings, secret client.ObjectKey) error {
	i := &issuer{
		client: mgr.GetClient(), secret: secret, configuration: client.ObjectKey{Name: s.WebhookConfiguration},
		rotator: rotator.CertRotator{
			CAName: agent.Name, CAOrganization: "kedify", DNSName: s.WebhookService + "." + s.Namespace + ".svc",
			ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
	}
	// What they are does not matter: there is one of each.
	request := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: secret}}
	})
	return builder.ControllerManagedBy(mgr).Named("webhook-certificate").
		Watches(&corev1.Secret{}, request).
		Watches(&admissionv1.MutatingWebhookConfiguration{}, request).
		Complete(i)
}

// Reconcile renews the certificate if it is time. Who sees the new one first does not
// matter: until the Secret has it, the API server trusts the old authority, too.
func (i *issuer) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := i.client.Get(ctx, i.secret, &secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ca := secret.Data[caKey]
	valid, err := rotator.ValidCert(ca, secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey],
		i.rotator.DNSName, i.rotator.ExtKeyUsages, time.Now().Add(renewal))
	if err == nil && valid {
		return reconcile.Result{RequeueAfter: look}, i.trust(ctx, ca)
	}
	from := time.Now().Add(-time.Hour) // clocks differ
	authority, err := i.rotator.CreateCACert(from, from.Add(lifetime))
	if err != nil {
		return reconcile.Result{}, err
	}
	certificate, key, err := i.rotator.CreateCertPEM(authority, from, from.Add(lifetime))
	if err != nil {
		return reconcile.Result{}, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		ca = nil // or the API server might refuse both
	}
	if err := i.trust(ctx, slices.Concat(authority.CertPEM, ca)); err != nil {
		return reconcile.Result{}, err
	}
	secret.Data = map[string][]byte{caKey: authority.CertPEM, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	return reconcile.Result{}, i.client.Update(ctx, &secret)
}

// trust makes the API server trust what certificate authorities, in PEM, have signed.
func (i *issuer) trust(ctx context.Context, authorities []byte) error {
	var configuration admissionv1.MutatingWebhookConfiguration
	if err := i.client.Get(ctx, i.configuration, &configuration); err != nil {
		return client.IgnoreNotFound(err)
	}
	changed := false
	for n := range configuration.Webhooks {
		if c := &configuration.Webhooks[n].ClientConfig; !bytes.Equal(c.CABundle, authorities) {
			c.CABundle, changed = authorities, true
		}
	}
	if !changed {
		return nil
	}
	return i.client.Update(ctx, &configuration)
}
