package agent

import "time"

// Settings are what the flags of the agent say.
type Settings struct {
	// Namespace is the agent's own namespace, in which the interceptors and scalers are.
	Namespace string
	// ScalerAddress is what triggers get as scalerAddress: host and port of the scalers.
	ScalerAddress string
	// InterceptorService is the Service whose pods are the interceptors, and InterceptorPort
	// their admin port.
	InterceptorService string
	InterceptorPort    uint16
	// KedifyProxy tells whether namespaces get a kedify-proxy of the agent's, made from the
	// ConfigMap KedifyProxyConfigMap in Namespace.
	KedifyProxy          bool
	KedifyProxyConfigMap string
	// OwnIngresses tells whether there is an Ingress of the agent's beside each that is wired.
	OwnIngresses bool
	// LeaveAlone is for how long an Ingress is left alone that somebody else writes back again
	// and again.
	LeaveAlone time.Duration
	// WebhookPort is the port of the mutating webhook, WebhookService the Service in front of
	// it, WebhookSecret the Secret in Namespace that holds its certificate, and
	// WebhookConfiguration the name of the MutatingWebhookConfiguration.
	WebhookPort                                         int
	WebhookService, WebhookSecret, WebhookConfiguration string
}
