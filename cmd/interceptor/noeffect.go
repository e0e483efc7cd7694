package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// withoutEffect are variables of KEDA's and Kedify's charts that have no effect here,
// and why: there is no such setting, or only as a flag.
var withoutEffect = map[string]string{
	"KEDA_HTTP_RESPONSE_HEADER_TIMEOUT": "use --response-header-timeout instead",
	"KEDA_HTTP_READINESS_TIMEOUT":       "use --condition-wait-timeout instead",
	"KEDA_HTTP_SHUTDOWN_DELAY":          "use --drain-delay instead",
	"KEDA_HTTP_DRAIN_TIMEOUT":           "use --shutdown-timeout instead",
	"KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST": "use --max-idle-conns-per-endpoint instead",
	"OTEL_PROM_EXPORTER_PORT":           "use --metrics-port instead",

	"KEDA_HTTP_COLD_START_MAX_PENDING_REQUESTS": "use --max-held-per-route instead",

	"KEDA_HTTP_REQUEST_TIMEOUT":       "no timeout cuts an answer that has begun; --response-header-timeout bounds the time until it begins",
	"KEDA_HTTP_FORCE_HTTP2":           "HTTP/2 is spoken to the ports whose appProtocol says so",
	"KEDA_HTTP_TLS_HANDSHAKE_TIMEOUT": "applications are spoken to without TLS",
	"KEDA_HTTP_PROXY_TLS_SKIP_VERIFY": "applications are spoken to without TLS",
	"KEDA_HTTP_DIRECT_POD_ROUTING":    "requests always go to the pods",
	"KEDA_HTTP_CLUSTER_DOMAIN":        "applications are reached by the addresses of their EndpointSlices, and no name is looked up",

	"KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS": "there is one certificate, --tls-cert-file",

	"KEDA_HTTP_DEPLOYMENT_CACHE_POLLING_INTERVAL_MS": "the API server is watched, and not polled",
	"KEDA_HTTP_ENDPOINTS_CACHE_POLLING_INTERVAL_MS":  "the API server is watched, and not polled",

	"KEDIFY_STRICT_ENDPOINT_SLICE_READINESS":       "endpoints that are not ready get requests only while they shut down and still serve, and no endpoint is ready",
	"KEDIFY_ENVOY_ENABLE_FALLBACK_CATCH_ALL_ROUTE": "a request that no HTTPScaledObject is for is answered 404",

	"KEDIFY_DEFAULT_COLD_START_WAITING_PAGE":               "there is no waiting page; coldStartTimeoutFailoverRef can name a Service that has one",
	"KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RESPONSE_CODE": "there is no waiting page",
	"KEDIFY_DEFAULT_COLD_START_WAITING_PAGE_RETRY_AFTER":   "there is no waiting page",
	"KEDIFY_DEFAULT_MAINTENANCE_PAGE":                      "there is no maintenance page",
	"KEDIFY_DEFAULT_MAINTENANCE_PAGE_RESPONSE_CODE":        "there is no maintenance page",
}

// flagsWithoutEffect are flags that KEDA's and Kedify's charts give an interceptor,
// and why they have no effect here.
var flagsWithoutEffect = map[string]string{
	"zap-log-level":        "use --log-level instead",
	"zap-encoder":          "use --log-format instead",
	"zap-time-encoding":    "times are in RFC 3339",
	"zap-stacktrace-level": "only a panic is logged with its stack",
	"zap-devel":            "use --log-level and --log-format instead",
}

// takeFlagsWithoutEffect accepts these flags, so that an interceptor starts with them.
func takeFlagsWithoutEffect(f *pflag.FlagSet) {
	for name, why := range flagsWithoutEffect {
		f.String(name, "", "without effect: "+why)
		f.Lookup(name).Hidden = true
	}
	f.Lookup("zap-devel").NoOptDefVal = "true"
}

// ofCharts matches the variables that configure an interceptor of KEDA's or Kedify's
// charts, of any release; a variable that it matches and that no setting reads has
// no effect.
var ofCharts = regexp.MustCompile(`^(KEDA|KEDIFY|OTEL)_|^PROFILING_BIND_ADDRESS$`)

// ofServices matches the variables with which Kubernetes tells a pod of the Services
// in its namespace, some of which begin with the same names.
var ofServices = regexp.MustCompile(`^\w+_(SERVICE_(HOST|PORT)(_\w+)?=|PORT=\w+://|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// ofFlag matches the variable that a flag's usage names.
var ofFlag = regexp.MustCompile(`\(((?:KEDA|KEDIFY)_\w+)\)`)

// linesWithoutEffect returns a line for the log for each variable of environ (as
// os.Environ returns it), and for each flag, that is set and has no effect, or is
// overridden by another flag.
func (o *options) linesWithoutEffect(environ []string, flags *pflag.FlagSet) []string {
	why := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !ofCharts.MatchString(name) || o.asked[name] || ofServices.MatchString(entry) {
			continue
		}
		why[name] = "this interceptor does not know it"
		if said := withoutEffect[name]; said != "" {
			why[name] = said
		}
	}
	for name, reason := range o.ineffective {
		why[name] = reason
	}
	flags.Visit(func(f *pflag.Flag) {
		if names := ofFlag.FindStringSubmatch(f.Usage); names != nil && o.set[names[1]] {
			why[names[1]] = "--" + f.Name + " is set, too, and wins"
		}
	})
	delete(why, ownNamespace) // --fallback-service names it, but need not replace it
	if o.set[ownNamespace] && (o.fallbackService == "" || strings.Contains(o.fallbackService, "/")) {
		why[ownNamespace] = "--fallback-service needs no namespace of this pod"
	}
	if o.set[tlsPort] && why[tlsPort] == "" && o.certFile == "" {
		why[tlsPort] = tlsEnabled + " is not true"
	}
	lines := make([]string, 0, len(why))
	for name, reason := range why {
		lines = append(lines, fmt.Sprintf("environment variable %s is set and has no effect: %s", name, reason))
	}
	flags.Visit(func(f *pflag.Flag) {
		if reason, is := flagsWithoutEffect[f.Name]; is {
			lines = append(lines, fmt.Sprintf("command-line flag --%s is set and has no effect: %s", f.Name, reason))
		}
	})
	slices.Sort(lines)
	return lines
}
