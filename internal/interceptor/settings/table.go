package settings

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Variables that are needed by other settings.
const (
	tlsEnabled   = "KEDA_HTTP_PROXY_TLS_ENABLED"
	podNamespace = "KEDA_HTTP_CURRENT_NAMESPACE"
)

// The values of the flags of both access logs.
var (
	accessLogs       = []string{routes.AccessLogOff, routes.AccessLogAnnotated, routes.AccessLogAll}
	accessLogFormats = []string{routes.AccessLogJSON, routes.AccessLogText}
)

// rows returns the table of settings. The values point into s.
func (s *Settings) rows() []row {
	p, x, k := &s.Proxy, &s.XDS, &s.KedifyProxy
	return []row{
		{flag: "log-level", value: &s.LogLevel, oneOf: []string{"debug", "info", "warn", "error"}, usage: "least level logged"},
		{flag: "log-format", value: &s.LogFormat, oneOf: []string{"json", "text"}, usage: "format of the log"},

		{flag: "watch-namespace", variable: "KEDA_HTTP_WATCH_NAMESPACE", value: &s.WatchNamespace, usage: "the one namespace whose HTTPScaledObjects are served; all when empty"},
		{flag: "fallback-service", value: &s.FallbackService, accepts: isService, expected: "the name of a Service as `[<namespace>/]<name>`, or nothing for none", usage: "Service of the interceptor itself that kedify-proxies send requests without an endpoint to, at its port named `fallback` or the only one; without a namespace in that of this pod; empty for none; with mutual TLS the `--fallback-address` of their bootstrap is used instead"},
		{variable: podNamespace, value: &s.PodNamespace, idle: s.podNamespaceIsIdle, usage: "the namespace of this pod, where `--fallback-service` is looked for; a pod finds it by itself"},

		{flag: "api-server-timeout", value: &s.APIServerTimeout, least: int64(4 * time.Second), orZero: true, usage: "how long the API server may be unseen before the interceptor asks the other pods of `--fallback-service` whether they see it; if one does, kedify-proxies are sent there, and /readyz fails; each watch is renewed after a quarter of this time; 0 is for never"},

		{flag: "host-ownership", value: &s.Policy.HostOwnership, usage: "a host belongs to the namespace of the oldest HTTPScaledObject that names it: those of other namespaces are not served for it, unless an annotation of that object allows it"},
		{flag: "max-matches-per-namespace", value: &s.Policy.MaxMatchesPerNamespace, least: 1, unit: "matches", usage: "matches (hosts times path prefixes times headers) of all HTTPScaledObjects of a namespace together; past it the newest are not served"},
		{flag: "max-wildcard-matches-per-namespace", value: &s.Policy.MaxWildcardMatchesPerNamespace, least: 1, unit: "matches", usage: "matches (path prefixes times headers) of all wildcard hosts above one host, and the same of any host, for all HTTPScaledObjects of a namespace together; past it the newest are not served"},
		{flag: "max-wildcard-matches", value: &s.Policy.MaxWildcardMatches, least: 1, unit: "matches", usage: "the same for all namespaces that a proxy serves together; no less than `--max-wildcard-matches-per-namespace`"},

		{flag: "proxy-port", variable: "KEDA_HTTP_PROXY_PORT", value: &s.ProxyPort, usage: "port of the embedded proxy"},
		{flag: "tls-port", variable: "KEDA_HTTP_PROXY_TLS_PORT", value: &s.TLSPort, idle: s.tlsPortIsIdle, usage: "port of the embedded proxy with TLS, when there is a certificate"},
		{flag: "admin-port", variable: "KEDA_HTTP_ADMIN_PORT", value: &s.AdminPort, usage: "port of /healthz, /readyz, /apiserver, /loadreport, /acknowledged, /debug/routes, /debug/envoys and /debug/log-level"},
		{flag: "metrics-port", value: &s.MetricsPort, usage: "port of /metrics"},
		{flag: "admin-max-connections", value: &s.AdminConnections, least: 1, unit: "connections", usage: "connections that may be open at a time to the admin port, and as many to the metrics port; for one more, the oldest of the address that has most is closed"},
		{flag: "admin-max-connections-per-address", value: &s.AdminConnectionsPerAddress, least: 1, unit: "connections", usage: "of these, from one IP address; for one more, its oldest is closed"},
		{flag: "fallback-port", value: &s.FallbackPort, usage: "port for requests of kedify-proxies that have no endpoint for them; nobody else may reach it; with mutual TLS they connect to the `--fallback-address` of their bootstrap"},
		{flag: "profiling-bind-address", variable: "PROFILING_BIND_ADDRESS", value: &s.ProfilingAddress, accepts: isListenAddress, expected: "host:port such as localhost:6060, or nothing for none", usage: "address of Go's profiles, under /debug/pprof/; whoever reaches it can slow the interceptor down and read its command line: `localhost:6060`, with kubectl port-forward, lets no other pod in"},
		{variable: tlsEnabled, value: &s.chartTLS, usage: "whether the two variables of the certificate have an effect; where it is true and they are not set, the files are `" + chartCertFile + "` and `" + chartKeyFile + "`"},
		{flag: "tls-cert-file", variable: "KEDA_HTTP_PROXY_TLS_CERT_PATH", value: &s.CertFile, idle: s.certPathIsIdle, usage: "certificate of the embedded proxy, PEM; read again when it changes"},
		{flag: "tls-key-file", variable: "KEDA_HTTP_PROXY_TLS_KEY_PATH", value: &s.KeyFile, idle: s.certPathIsIdle, usage: "key of the certificate, PEM"},

		{flag: "drain-delay", value: &s.DrainDelay, usage: "how long requests are still taken after SIGTERM, until everybody knows that this replica is leaving"},
		{flag: "shutdown-timeout", value: &s.ShutdownTimeout, least: 1, usage: "how long requests under way may take after that before they are cut"},

		{flag: "connect-timeout", variable: "KEDA_HTTP_CONNECT_TIMEOUT", value: &p.ConnectTimeout, least: 1, usage: "how long connecting to an endpoint may take"},
		{flag: "response-header-timeout", variable: "KEDA_RESPONSE_HEADER_TIMEOUT", value: &p.ResponseHeader, most: int64(envoy.MaxTimeout), usage: "how long an application may take to begin its answer where its HTTPScaledObject does not say; 0 is for as long as it likes"},
		{flag: "condition-wait-timeout", variable: "KEDA_CONDITION_WAIT_TIMEOUT", value: &p.ConditionWait, usage: "how long a request waits for a first endpoint where its HTTPScaledObject does not say"},
		{flag: "expect-continue-timeout", variable: "KEDA_HTTP_EXPECT_CONTINUE_TIMEOUT", value: &p.ExpectContinue, least: 1, usage: "how long a body is kept back from an application that does not answer Expect: 100-continue; embedded proxy only"},
		{flag: "keep-alive", variable: "KEDA_HTTP_KEEP_ALIVE", value: &p.KeepAlive, least: 1, usage: "interval of keep-alive probes of TCP and HTTP/2"},
		{flag: "tcp-user-timeout", value: &p.UserTimeout, usage: "how long an application may take none of what is sent to it, because its node is gone or it does not read; its connection is given up then (TCP's user timeout); 0 is for as long as the kernel allows"},
		{flag: "max-idle-conns", variable: "KEDA_HTTP_MAX_IDLE_CONNS", value: &p.MaxIdleConns, unit: "connections", usage: "unused connections to applications that are kept, 0 for any number; embedded proxy only"},
		{flag: "max-idle-conns-per-endpoint", value: &p.MaxIdleConnsPerEndpoint, least: 1, unit: "connections", usage: "of these, to one endpoint; embedded proxy only"},
		{flag: "idle-conn-timeout", variable: "KEDA_HTTP_IDLE_CONN_TIMEOUT", value: &p.IdleConnTimeout, usage: "how long an unused connection to an application is kept; 0 is for ever"},
		{flag: "max-upstream-requests", variable: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS", value: &p.MaxUpstreamRequests, unit: "requests", usage: "requests at a time to one Service of an HTTPScaledObject, WebSockets included, in the embedded proxy; beyond, they are answered 503; `--kedify-proxy-max-requests` is the same for kedify-proxies; 0 for any number"},
		{flag: "max-held", value: &p.MaxHeld, unit: "requests", usage: "requests that may wait for endpoints at a time"},
		{flag: "max-held-per-route", value: &p.MaxHeldPerRoute, unit: "requests", usage: "of these, for one HTTPScaledObject"},
		{flag: "max-held-bytes", value: &p.MaxHeldBytes, unit: "bytes", usage: "bytes that waiting requests may keep in memory: 48 KiB each for itself and its connection, its header, and the part of its body that can be here"},
		{flag: "retry-after", value: &p.RetryAfter, least: int64(time.Second), usage: "what clients are told when there is no endpoint for them; whole seconds"},
		{flag: "max-header-bytes", value: &p.MaxHeaderBytes, least: 1, unit: "bytes", usage: "largest header of a request or response; kedify-proxies round up to KiB, and take 8 MiB at most"},
		{flag: "read-header-timeout", value: &p.ReadHeader, least: 1, usage: "how long a client may take to send a header"},
		{flag: "idle-timeout", value: &p.Idle, least: 1, usage: "how long a client's connection is kept between requests"},
		{flag: "send-timeout", value: &p.SendTimeout, usage: "how long a client may take none of what waits to be sent to it before it is given up; 0 is for as long as it likes"},
		{flag: "max-connections", value: &p.MaxConnections, least: 1, unit: "connections", usage: "connections of clients, and apart from these of kedify-proxies, that may be open at a time; those beyond are closed; embedded proxy only, kedify-proxies have theirs in their bootstrap"},
		{flag: "max-streams", value: &p.MaxStreams, least: 1, unit: "requests", usage: "requests at a time of one HTTP/2 connection"},
		{flag: "access-log", value: &p.AccessLog, oneOf: accessLogs, usage: "requests in [the access log](../how-to/observe.md#log-requests) of the embedded proxy: none, those of annotated objects, or all"},
		{flag: "access-log-format", value: &p.AccessLogFormat, oneOf: accessLogFormats, usage: "format of that log"},
		{variable: "KEDA_HTTP_LOG_REQUESTS", value: &s.chartLogRequests, idle: s.chartLogRequestsIsIdle, usage: "logs all requests, unless `--access-log` says otherwise"},
		{flag: "edge", value: &p.Edge, usage: "clients reach the interceptor or the kedify-proxies without an ingress between: the headers Forwarded, X-Forwarded-* and X-Real-Ip that they send are dropped"},

		{flag: "xds-port", value: &s.XDSPort, usage: "port that kedify-proxies get their configuration from"},
		{flag: "xds-cert-file", value: &s.XDSCertFile, usage: "certificate of the xDS server, PEM, for mutual TLS; read again when it changes; plain HTTP/2 when left out"},
		{flag: "xds-key-file", value: &s.XDSKeyFile, usage: "key of the xDS server's certificate, PEM"},
		{flag: "xds-client-ca-file", value: &s.XDSClientCAFile, usage: "authority of the kedify-proxies' certificates, PEM; read again when it changes"},
		{flag: "xds-require-namespaces", value: &x.RequireNamespaces, usage: "turn away kedify-proxies whose certificate names no namespace, and connections to the fallback port without TLS"},
		{flag: "xds-keepalive-time", variable: "KEDIFY_XDS_KEEPALIVE_TIME", value: &x.KeepaliveTime, least: 1, usage: "how long a kedify-proxy may be silent before it is asked whether it lives"},
		{flag: "xds-keepalive-timeout", variable: "KEDIFY_XDS_KEEPALIVE_TIMEOUT", value: &x.KeepaliveTimeout, least: 1, usage: "how long it has to answer"},
		{flag: "xds-keepalive-min-time", variable: "KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME", value: &x.KeepaliveMinTime, usage: "how often a kedify-proxy may ask the same"},
		{flag: "xds-max-connection-age", value: &x.MaxConnectionAge, least: int64(time.Second), orZero: true, usage: "how old a connection of a kedify-proxy becomes, and up to a third more, before it makes another, so that they spread over the interceptors again, and its certificate is looked at anew; 0 for any age"},
		{flag: "xds-max-concurrent-streams", variable: "KEDIFY_XDS_MAX_CONCURRENT_STREAMS", value: &x.MaxConcurrentStreams, least: 1, unit: "streams", usage: "streams of one connection, and of all connections from one IP address; each kedify-proxy has two, and up to four while it makes another connection: raise it if more than ten share an address, behind NAT or the sidecar of a mesh"},
		{flag: "xds-max-streams", value: &x.MaxStreams, least: 1, unit: "streams", usage: "streams of all kedify-proxies; for a further one, the oldest one of the address that has most ends"},
		{flag: "xds-max-connections", value: &s.XDSConnections, least: 1, unit: "connections", usage: "connections that may be open at a time to the xDS port; for a further one, the oldest one of the address that has most is closed"},
		{flag: "xds-max-connections-per-address", value: &s.XDSConnectionsPerAddress, least: 1, unit: "connections", usage: "of these, from one IP address; raise it if more than ten kedify-proxies share an address"},
		{flag: "xds-linger", value: &x.Linger, usage: "how long a cluster stays in a kedify-proxy after the last route to it"},

		{flag: "kedify-proxy-address", value: &k.Address, usage: "IP address on which kedify-proxies take requests; with `::` they take them over IPv6 and IPv4, on nodes that have IPv6"},
		{flag: "kedify-proxy-port", value: &k.Port, usage: "port on which kedify-proxies take requests"},
		{flag: "kedify-proxy-tls-port", value: &k.TLSPort, usage: "port on which kedify-proxies take requests with TLS, when there is a certificate"},
		{flag: "kedify-proxy-max-connections", variable: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS", value: &k.MaxConnections, unit: "connections", usage: "connections of a kedify-proxy to one backend; 0 for any number"},
		{flag: "kedify-proxy-max-pending-requests", variable: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS", value: &k.MaxPendingRequests, unit: "requests", usage: "requests that wait for one of them; 0 for any number"},
		{flag: "kedify-proxy-max-requests", variable: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS", value: &k.MaxRequests, unit: "requests", usage: "requests at a time to one backend; 0 for any number"},
		{flag: "kedify-proxy-access-log", value: &k.AccessLog, oneOf: accessLogs, usage: "requests in [the access log](../how-to/observe.md#log-requests) of kedify-proxies: none, those of annotated objects, or all; a change makes kedify-proxies drain their connections"},
		{flag: "kedify-proxy-access-log-format", value: &k.AccessLogFormat, oneOf: accessLogFormats, usage: "format of that log"},
		{variable: "KEDIFY_PROXY_ACCESS_LOG_TYPE", value: &s.chartAccessLog, accepts: isChartAccessLog, expected: "json, plaintext, or nothing for none", idle: s.chartAccessLogIsIdle, usage: "logs all requests in this format, unless `--kedify-proxy-access-log` and `--kedify-proxy-access-log-format` say otherwise"},
		{flag: "kedify-proxy-max-retries", variable: "KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES", value: &k.MaxRetries, unit: "requests", usage: "requests to one backend that are being tried again at a time; 0 for any number"},

		// Variables and flags of KEDA's and Kedify's charts that have no effect.
		{variable: "KEDA_HTTP_RESPONSE_HEADER_TIMEOUT", noEffect: "use `--response-header-timeout` instead"},
		{variable: "KEDA_HTTP_READINESS_TIMEOUT", noEffect: "use `--condition-wait-timeout` instead"},
		{variable: "KEDA_HTTP_SHUTDOWN_DELAY", noEffect: "use `--drain-delay` instead"},
		{variable: "KEDA_HTTP_DRAIN_TIMEOUT", noEffect: "use `--shutdown-timeout` instead"},
		{variable: "KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST", noEffect: "use `--max-idle-conns-per-endpoint` instead"},
		{variable: "OTEL_PROM_EXPORTER_PORT", noEffect: "use `--metrics-port` instead"},
		{variable: "KEDA_HTTP_OTEL_PROM_EXPORTER_PORT", noEffect: "use `--metrics-port` instead"},
		{variable: "KEDA_HTTP_COLD_START_MAX_PENDING_REQUESTS", noEffect: "use `--max-held-per-route` instead"},
		{variable: "KEDA_HTTP_REQUEST_TIMEOUT", noEffect: "no timeout cuts an answer that has begun; `--response-header-timeout` bounds the time until it begins"},
		{variable: "KEDA_HTTP_FORCE_HTTP2", noEffect: "HTTP/2 is spoken to the ports whose appProtocol says so"},
		{variable: "KEDA_HTTP_TLS_HANDSHAKE_TIMEOUT", noEffect: "applications are spoken to without TLS"},
		{variable: "KEDA_HTTP_PROXY_TLS_SKIP_VERIFY", noEffect: "applications are spoken to without TLS"},
		{variable: "KEDA_HTTP_DIRECT_POD_ROUTING", noEffect: "requests always go to the pods"},
		{variable: "KEDA_HTTP_CLUSTER_DOMAIN", noEffect: "applications are reached by the addresses of their EndpointSlices, and no name is looked up"},
		{variable: "KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS", noEffect: "there is one certificate, `--tls-cert-file`"},
		{variable: "KEDA_HTTP_DEPLOYMENT_CACHE_POLLING_INTERVAL_MS", noEffect: "the API server is watched, and not polled"},
		{variable: "KEDA_HTTP_ENDPOINTS_CACHE_POLLING_INTERVAL_MS", noEffect: "the API server is watched, and not polled"},
		{variable: "KEDIFY_STRICT_ENDPOINT_SLICE_READINESS", noEffect: "endpoints that are not ready get requests only while they shut down and still serve, and no endpoint is ready"},
		{variable: "KEDIFY_ENVOY_ENABLE_FALLBACK_CATCH_ALL_ROUTE", noEffect: "a request that no HTTPScaledObject is for is answered 404"},
		{variable: "KEDIFY_DEFAULT_COLD_START_WAITING_PAGE", noEffect: "there is no waiting page; coldStartTimeoutFailoverRef can name a Service that has one"},
		{variable: "KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RESPONSE_CODE", noEffect: "there is no waiting page"},
		{variable: "KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RETRY_AFTER", noEffect: "there is no waiting page"},
		{variable: "KEDIFY_DEFAULT_MAINTENANCE_PAGE", noEffect: "there is no maintenance page"},
		{variable: "KEDIFY_DEFAULT_MAINTENANCE_PAGE_RESPONSE_CODE", noEffect: "there is no maintenance page"},
		{variable: "KEDA_HTTP_CUSTOM_INTERCEPTOR_REQUEST_HEADERS", noEffect: "no setting adds headers"},
		{variable: "KEDA_HTTP_CUSTOM_INTERCEPTOR_RESPONSE_HEADERS", noEffect: "no setting adds headers"},
		{variable: "KEDA_HTTP_CUSTOM_KEDIFY_PROXY_REQUEST_HEADERS", noEffect: "no setting adds headers"},
		{variable: "KEDA_HTTP_CUSTOM_KEDIFY_PROXY_RESPONSE_HEADERS", noEffect: "no setting adds headers"},
		{variable: "KEDA_HTTP_ENABLE_COLD_START_HEADER", noEffect: "no setting adds headers; the metric `interceptor_cold_starts_total` counts cold starts"},
		{variable: "KEDA_HTTP_PROXY_TLS_MIN_VERSION", noEffect: "TLS 1.2 and later are served, with the ciphers and curves of Go and of Envoy"},
		{variable: "KEDA_HTTP_PROXY_TLS_MAX_VERSION", noEffect: "TLS 1.2 and later are served, with the ciphers and curves of Go and of Envoy"},
		{variable: "KEDA_HTTP_PROXY_TLS_CIPHER_SUITES", noEffect: "TLS 1.2 and later are served, with the ciphers and curves of Go and of Envoy"},
		{variable: "KEDA_HTTP_PROXY_TLS_CURVE_PREFERENCES", noEffect: "TLS 1.2 and later are served, with the ciphers and curves of Go and of Envoy"},
		{variable: "KEDA_HTTP_SCALER_CONFIG_MAP_INFORMER_RSYNC_PERIOD", noEffect: "it is for KEDA's scaler"},
		{variable: "KEDIFY_PROXY_LISTENER_TCP_BACKLOG_SIZE", noEffect: "the kernel's backlog is used"},
		{variable: "KEDIFY_PROXY_PER_CONNECTION_BUFFER_LIMIT_BYTES", noEffect: "no setting changes the buffers of kedify-proxies"},
		{variable: "OTEL_EXPORTER_OTLP_METRICS_ENABLED", noEffect: "Prometheus scrapes the metrics from `--metrics-port`"},
		{flag: "zap-log-level", noEffect: "use `--log-level` instead"},
		{flag: "zap-encoder", noEffect: "use `--log-format` instead"},
		{flag: "zap-time-encoding", noEffect: "times are in RFC 3339"},
		{flag: "zap-stacktrace-level", noEffect: "only a panic is logged with its stack"},
		{flag: "zap-devel", value: new(bool), noEffect: "use `--log-level` and `--log-format` instead"},
	}
}
