package webhook

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
)

const dnsName = "kedify-agent.keda.svc"

// The agent that leads fills the Secret, renews what is in it 90 days before its end, and
// leaves alone what is good. At no time is there a certificate in the Secret that the API
// server does not trust.
func TestCertificateIsIssuedAndTrusted(t *testing.T) {
	rotator := rotator.CertRotator{CAName: agent.Name, DNSName: dnsName, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	of := func(end time.Duration) map[string][]byte {
		from := time.Now().Add(-time.Hour)
		authority, err := rotator.CreateCACert(from, from.Add(lifetime))
		if err != nil {
			t.Fatal(err)
		}
		certificate, key, err := rotator.CreateCertPEM(authority, from, time.Now().Add(end))
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{caKey: authority.CertPEM, corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key}
	}
	for name, tt := range map[string]struct {
		secret                        map[string][]byte
		trusted                       bool // by the API server already
		secretWrites, configuredTimes int
	}{
		"an empty Secret":                {nil, false, 1, 1},
		"something else in the Secret":   {map[string][]byte{caKey: []byte("x"), corev1.TLSCertKey: []byte("y")}, false, 1, 1},
		"it ends in 80 days":             {of(80 * 24 * time.Hour), true, 1, 2},
		"it ends in 100 days":            {of(100 * 24 * time.Hour), true, 0, 0},
		"the API server has no caBundle": {of(100 * 24 * time.Hour), false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := agent.Scheme()
			if err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "keda", Name: "webhook"}, Data: tt.secret}
			configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "a"}}}
			if tt.trusted {
				configuration.Webhooks[0].ClientConfig.CABundle = tt.secret[caKey]
			}
			i := &issuer{rotator: rotator, secret: client.ObjectKeyFromObject(secret), configuration: client.ObjectKeyFromObject(configuration)}
			written := map[string]int{}
			requireTrusted := func() {
				t.Helper()
				if err := verify(t.Context(), i.client, i); err != nil {
					t.Error(err)
				}
			}
			i.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret, configuration).WithInterceptorFuncs(interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
					_, isSecret := object.(*corev1.Secret)
					written[map[bool]string{true: "secret", false: "configuration"}[isSecret]]++
					if isSecret && tt.trusted {
						requireTrusted()
					}
					err := c.Update(ctx, object, options...)
					if isSecret {
						requireTrusted()
					}
					return err
				},
			}).Build()
			for range 3 { // the second is what the Event of the first's write makes
				if _, err := i.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			requireTrusted()
			if written["secret"] != tt.secretWrites || written["configuration"] != tt.configuredTimes {
				t.Errorf("written: %v; want the Secret %d times, the MutatingWebhookConfiguration %d times", written, tt.secretWrites, tt.configuredTimes)
			}
		})
	}
}

// verify tells whether the API server trusts what is served.
func verify(ctx context.Context, reader client.Reader, i *issuer) error {
	served, err := certificateOf(ctx, reader, i.secret)
	if err != nil {
		return err
	}
	var configuration admissionv1.MutatingWebhookConfiguration
	if err := reader.Get(ctx, i.configuration, &configuration); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: dnsName, Roots: roots})
	return err
}
