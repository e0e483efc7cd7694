package routes

// FallbackTLV is the type of the PROXY protocol v2 record that names the
// HTTPScaledObject, <namespace>/<name>, on connections of an Envoy to the fallback
// listener of an interceptor, and FallbackServiceTLV that of the record that names
// the Service whose turn it was. They are of the range left to private use.
const (
	FallbackTLV        = 0xE0
	FallbackServiceTLV = 0xE1
)

// SecondTryHeader is a header that Envoy adds to a request that it tries again:
// "true" after its timeout for the response's header, else "false".
const SecondTryHeader = "X-Envoy-Is-Timeout-Retry"
