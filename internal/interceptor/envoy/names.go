package envoy

// Names that an Envoy and its interceptor have to agree on.
const (
	// NodeID is the node ID that every Envoy must have.
	NodeID = "kedify-proxy"
	// RouteConfigurationName is the only RouteConfiguration.
	RouteConfigurationName = "kedify-proxy"
	// ListenerName is the listener for HTTP without TLS.
	ListenerName = "kedify-proxy"
	// TLSListenerName is the listener for HTTP over TLS.
	TLSListenerName = "kedify-proxy-tls"
	// SecretName is the certificate of the TLS listener.
	SecretName = "kedify-proxy"
	// StatPrefix begins the statistics of both listeners, http.kedify-proxy.
	StatPrefix = "kedify-proxy"
	// XDSClusterName is the cluster of the interceptor in the bootstrap.
	XDSClusterName = "xds_cluster"
	// NamespacesKey is the key in the node's metadata of the list of namespaces that an
	// Envoy asks for; without it, it asks for all.
	NamespacesKey = "namespaces"
	// PodKey is the key in the node's metadata of the name of the Envoy's pod,
	// <namespace>/<name>, by which messages name the Envoy.
	PodKey = "pod"
	// FallbackTLSKey is the key in the node's metadata that is true for an Envoy with a
	// bootstrap that has FallbackListenerName.
	FallbackTLSKey = "fallback_tls"
	// FallbackListenerName is, in the bootstrap of an Envoy with mutual TLS, the
	// internal listener that forwards connections to the interceptor's fallback
	// listener over TLS; its cluster has the same name.
	FallbackListenerName = "kedify-proxy-fallback"
)
