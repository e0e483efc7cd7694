package settings

import (
	"slices"
	"strings"
	"testing"
)

// ofAllCharts are the variables that releases of KEDA's and Kedify's charts set for
// an interceptor, and that the documentation of KEDA's add-on names.
const ofAllCharts = `
KEDA_CONDITION_WAIT_TIMEOUT=20m
KEDA_HTTP_ADMIN_PORT=9090
KEDA_HTTP_CLUSTER_DOMAIN=cluster.local
KEDA_HTTP_COLD_START_MAX_PENDING_REQUESTS=0
KEDA_HTTP_CONNECT_TIMEOUT=5m
KEDA_HTTP_CURRENT_NAMESPACE=keda
KEDA_HTTP_CUSTOM_INTERCEPTOR_REQUEST_HEADERS=a:b
KEDA_HTTP_CUSTOM_INTERCEPTOR_RESPONSE_HEADERS=a:b
KEDA_HTTP_CUSTOM_KEDIFY_PROXY_REQUEST_HEADERS=a:b
KEDA_HTTP_CUSTOM_KEDIFY_PROXY_RESPONSE_HEADERS=a:b
KEDA_HTTP_DEPLOYMENT_CACHE_POLLING_INTERVAL_MS=250
KEDA_HTTP_DIRECT_POD_ROUTING=true
KEDA_HTTP_DRAIN_TIMEOUT=30s
KEDA_HTTP_ENABLE_COLD_START_HEADER=true
KEDA_HTTP_ENDPOINTS_CACHE_POLLING_INTERVAL_MS=20000
KEDA_HTTP_EXPECT_CONTINUE_TIMEOUT=1s
KEDA_HTTP_FORCE_HTTP2=true
KEDA_HTTP_IDLE_CONN_TIMEOUT=10m
KEDA_HTTP_KEEP_ALIVE=1s
KEDA_HTTP_LOG_REQUESTS=false
KEDA_HTTP_MAX_IDLE_CONNS=100
KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST=200
KEDA_HTTP_OTEL_HTTP_COLLECTOR_ENDPOINT=otel:4318
KEDA_HTTP_OTEL_PROM_EXPORTER_PORT=2223
KEDA_HTTP_PROXY_PORT=8080
KEDA_HTTP_PROXY_TLS_CERT_PATH=/certs/tls.crt
KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS=/certs
KEDA_HTTP_PROXY_TLS_CIPHER_SUITES=TLS_AES_128_GCM_SHA256
KEDA_HTTP_PROXY_TLS_CURVE_PREFERENCES=X25519
KEDA_HTTP_PROXY_TLS_ENABLED=true
KEDA_HTTP_PROXY_TLS_KEY_PATH=/certs/tls.key
KEDA_HTTP_PROXY_TLS_MAX_VERSION=1.3
KEDA_HTTP_PROXY_TLS_MIN_VERSION=1.2
KEDA_HTTP_PROXY_TLS_PORT=8443
KEDA_HTTP_PROXY_TLS_SKIP_VERIFY=false
KEDA_HTTP_READINESS_TIMEOUT=1s
KEDA_HTTP_REQUEST_TIMEOUT=1s
KEDA_HTTP_RESPONSE_HEADER_TIMEOUT=300s
KEDA_HTTP_SCALER_CONFIG_MAP_INFORMER_RSYNC_PERIOD=60m
KEDA_HTTP_SHUTDOWN_DELAY=5s
KEDA_HTTP_TLS_HANDSHAKE_TIMEOUT=10s
KEDA_HTTP_WATCH_NAMESPACE=demo
KEDA_RESPONSE_HEADER_TIMEOUT=30s
KEDIFY_DEFAULT_COLD_START_WAITING_PAGE=wait
KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RESPONSE_CODE=503
KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RETRY_AFTER=60s
KEDIFY_DEFAULT_MAINTENANCE_PAGE=wait
KEDIFY_DEFAULT_MAINTENANCE_PAGE_RESPONSE_CODE=503
KEDIFY_ENVOY_ENABLE_FALLBACK_CATCH_ALL_ROUTE=false
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_CONNECTIONS=8192
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_PENDING_REQUESTS=8192
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_REQUESTS=8192
KEDIFY_HTTP_PROXY_MAX_UPSTREAM_RETRIES=3
KEDIFY_PROXY_ACCESS_LOG_TYPE=json
KEDIFY_PROXY_LISTENER_TCP_BACKLOG_SIZE=128
KEDIFY_PROXY_PER_CONNECTION_BUFFER_LIMIT_BYTES=1048576
KEDIFY_STRICT_ENDPOINT_SLICE_READINESS=false
KEDIFY_XDS_KEEPALIVE_ENFORCEMENT_POLICY_MIN_TIME=30s
KEDIFY_XDS_KEEPALIVE_TIME=30s
KEDIFY_XDS_KEEPALIVE_TIMEOUT=5s
KEDIFY_XDS_MAX_CONCURRENT_STREAMS=1000000
OTEL_EXPORTER_OTLP_METRICS_ENABLED=false
OTEL_EXPORTER_OTLP_TRACES_ENABLED=true
OTEL_PROM_EXPORTER_PORT=2223
PROFILING_BIND_ADDRESS=:8086
`

// said returns the variables that the log names at start, with their lines.
func said(t *testing.T, environ []string, args ...string) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	s, flags, err := read(variables, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]string)
	for _, line := range s.WithoutEffect(environ, flags) {
		name := strings.Fields(line)[2]
		if lines[name] != "" {
			t.Errorf("%s is told of twice", name)
		}
		lines[name] = line
	}
	return lines
}

// Each variable of the charts either is a setting's or is named in the log.
func TestEachVariableOfTheChartsHasAnEffectOrIsToldOf(t *testing.T) {
	all := strings.Fields(ofAllCharts)
	lines := said(t, all)
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		is := slices.ContainsFunc(defaults(), func(r row) bool { return r.variable == name && r.noEffect == "" })
		if is == (lines[name] != "") {
			t.Errorf("%s: it is a setting's: %v, and the log says: %q", name, is, lines[name])
		}
	}
	for name, variable := range map[string]string{"unset": "KEDA_HTTP_LOG_REQUESTS=", "of a later release": "KEDIFY_WHATEVER=1"} {
		if got, want := len(said(t, []string{variable})), len(variable[strings.Index(variable, "=")+1:]); got != want {
			t.Errorf("%s: told of %d, want %d", name, got, want)
		}
	}
}

func TestValuesWithoutEffectAreToldOf(t *testing.T) {
	for name, tt := range map[string]struct {
		environ, args []string
		told, says    string // empty if the log names none
	}{
		"a flag wins":                      {environ: []string{"KEDIFY_XDS_KEEPALIVE_TIME=1m"}, args: []string{"--xds-keepalive-time=2m"}, told: "KEDIFY_XDS_KEEPALIVE_TIME", says: "--xds-keepalive-time"},
		"another flag":                     {environ: []string{"KEDIFY_XDS_KEEPALIVE_TIME=1m"}, args: []string{"--xds-keepalive-timeout=2m"}},
		"a port of TLS that is off":        {environ: []string{"KEDA_HTTP_PROXY_TLS_PORT=8443"}, told: "KEDA_HTTP_PROXY_TLS_PORT", says: "KEDA_HTTP_PROXY_TLS_ENABLED is not true"},
		"a port of TLS that a flag has on": {environ: []string{"KEDA_HTTP_PROXY_TLS_PORT=8443"}, args: []string{"--tls-cert-file=c", "--tls-key-file=k"}},
		"a namespace":                      {environ: []string{"KEDA_HTTP_CURRENT_NAMESPACE=keda"}, args: []string{"--fallback-service=mine"}},
		"a namespace, given by the flag":   {environ: []string{"KEDA_HTTP_CURRENT_NAMESPACE=keda"}, args: []string{"--fallback-service=keda/mine"}, told: "KEDA_HTTP_CURRENT_NAMESPACE", says: "--fallback-service"},
		"Services of the namespace": {environ: []string{
			"KEDIFY_PROXY_SERVICE_HOST=10.0.0.1", "KEDIFY_PROXY_SERVICE_PORT=8080", "KEDIFY_PROXY_SERVICE_PORT_HTTP=8080", "KEDIFY_PROXY_PORT=tcp://10.0.0.1:8080",
			"KEDIFY_PROXY_PORT_8080_TCP=tcp://10.0.0.1:8080", "KEDIFY_PROXY_PORT_8080_TCP_PROTO=tcp", "KEDIFY_PROXY_PORT_8080_TCP_PORT=8080", "KEDIFY_PROXY_PORT_8080_TCP_ADDR=10.0.0.1",
		}},
		"the level of KEDA's chart":  {args: []string{"--zap-log-level=info"}, told: "--zap-log-level", says: "use --log-level instead"},
		"tracing that is off":        {environ: []string{"OTEL_TRACES_SAMPLER=always_on"}, told: "OTEL_TRACES_SAMPLER", says: "tracing is on where OTEL_TRACES_EXPORTER is otlp"},
		"tracing that is on":         {environ: []string{"OTEL_TRACES_SAMPLER=always_on", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENABLED=true"}},
		"OpenTelemetry's propagator": {environ: []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_PROPAGATORS=b3"}, told: "OTEL_PROPAGATORS", says: "does not know it"},
		"somebody else's":            {environ: []string{"HOME=/", "MY_KEDA_HTTP_X=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			lines := said(t, tt.environ, tt.args...)
			if tt.told == "" && len(lines) > 0 || tt.told != "" && (len(lines) != 1 || !strings.Contains(lines[tt.told], tt.says)) {
				t.Errorf("told of %v, want %q with %q", lines, tt.told, tt.says)
			}
		})
	}
}

// An interceptor starts with the flags of the charts, and logs each of them.
func TestFlagsOfTheChartsAreTaken(t *testing.T) {
	lines := said(t, nil, "--zap-log-level=info", "--zap-encoder=console", "--zap-time-encoding=rfc3339", "--zap-stacktrace-level=error", "--zap-devel")
	if len(lines) != 5 {
		t.Errorf("told of %v, want all five flags", lines)
	}
	_, flags, err := read(nil)
	if err != nil || strings.Contains(flags.FlagUsages(), "zap") {
		t.Errorf("%v; the usage shows flags without effect:\n%s", err, flags.FlagUsages())
	}
}
