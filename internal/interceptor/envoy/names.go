package envoy

// Names that an Envoy and its interceptor have to agree on.
const (
	// NodeID is what an Envoy has to call itself.
	NodeID = "kedify-proxy"
	// RouteConfigurationName is the only RouteConfiguration.
	RouteConfigurationName = "kedify-proxy"
	// ListenerName takes HTTP without TLS.
	ListenerName = "kedify-proxy"
	// TLSListenerName takes HTTP over TLS.
	TLSListenerName = "kedify-proxy-tls"
	// SecretName is the certificate of the TLS listener.
	SecretName = "kedify-proxy"
	// StatPrefix begins the statistics of both listeners, http.kedify-proxy.
	StatPrefix = "kedify-proxy"
	// XDSClusterName is, in the bootstrap, where the interceptor is.
	XDSClusterName = "xds_cluster"
	// NamespacesKey is, in the node's metadata, a list of namespaces that are
	// all an Envoy wants to know of; without it, it wants all.
	NamespacesKey = "namespaces"
	// PodKey is, in the node's metadata, the name of the Envoy's pod, as
	// <namespace>/<name>: what is told of the Envoy names it.
	PodKey = "pod"
	// FallbackTLSKey is, in the node's metadata, true for an Envoy with a bootstrap that
	// has FallbackListenerName.
	FallbackTLSKey = "fallback_tls"
	// FallbackListenerName is, in the bootstrap of an Envoy with mutual TLS, the
	// listener within Envoy that takes what is for the interceptor's fallback
	// listener there, with TLS; its cluster has the same name.
	FallbackListenerName = "kedify-proxy-fallback"
)
