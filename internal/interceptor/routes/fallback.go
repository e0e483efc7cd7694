package routes

// FallbackTLV is the type of the PROXY protocol v2 record that names the
// HTTPScaledObject, <namespace>/<name>, on connections of an Envoy to the fallback
// listener of an interceptor. It is of the range left to private use.
const FallbackTLV = 0xE0
