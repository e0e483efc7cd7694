package routes

// FallbackTLV is the type of the PROXY protocol v2 record that names the
// HTTPScaledObject, <namespace>/<name>, on connections of an Envoy to the fallback
// listener of an interceptor. FallbackServiceTLV is the type of the record that names
// the Service that Envoy had chosen. Both are in the range for private use.
const (
	FallbackTLV        = 0xE0
	FallbackServiceTLV = 0xE1
)

// SecondTryHeader is a header that Envoy adds to a request that it tries again:
// "true" after its timeout for the response's header, else "false".
const SecondTryHeader = "X-Envoy-Is-Timeout-Retry"
