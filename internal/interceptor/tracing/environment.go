package tracing

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Variables that say whether there are spans, and how they are exported.
const (
	sdkDisabled    = "OTEL_SDK_DISABLED"
	tracesExporter = "OTEL_TRACES_EXPORTER"
	tracesEnabled  = "OTEL_EXPORTER_OTLP_TRACES_ENABLED" // KEDA's
)

// That of traces precedes the general one.
var (
	endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
	protocols = []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
)

// sizes are numbers of spans. The SDK panics if one is negative.
var sizes = []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"}

// Values of the variables in protocols.
const (
	httpProtobuf = "http/protobuf"
	grpc         = "grpc"
)

// read matches the variables that this package and the SDK read.
var read = regexp.MustCompile(`^OTEL_(SDK_DISABLED|SERVICE_NAME|RESOURCE_ATTRIBUTES|TRACES_(EXPORTER|SAMPLER|SAMPLER_ARG)` +
	`|BSP_(SCHEDULE_DELAY|EXPORT_TIMEOUT|MAX_QUEUE_SIZE|MAX_EXPORT_BATCH_SIZE)` +
	`|(SPAN_)?ATTRIBUTE_(VALUE_LENGTH|COUNT)_LIMIT|SPAN_(EVENT|LINK)_COUNT_LIMIT|(EVENT|LINK)_ATTRIBUTE_COUNT_LIMIT` +
	`|EXPORTER_OTLP_(TRACES_)?(ENDPOINT|PROTOCOL|HEADERS|TIMEOUT|COMPRESSION|INSECURE|CERTIFICATE|CLIENT_CERTIFICATE|CLIENT_KEY)` +
	`|EXPORTER_OTLP_TRACES_ENABLED)$`)

// WhyIdle returns why an environment variable has no effect on tracing, "" if it has one;
// known is false for a variable that is none of tracing's.
func WhyIdle(name string, get func(string) string) (why string, known bool) {
	if !read.MatchString(name) {
		return "", false
	}
	env := environment(get)
	switch protocol, err := env.protocol(); {
	case err != nil || protocol != "":
		return "", true // New says what is wrong
	case env.off():
		return "", true // it is what turns tracing off, or waits for that to end
	default:
		return "tracing is on where " + tracesExporter + " is otlp, or " + endpoints[0] + " or " + endpoints[1] + " is set", true
	}
}

// environment returns the value of a variable, "" if it is not set.
type environment func(name string) string

// first returns the first of these variables that is set, and its value.
func (env environment) first(names []string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(env(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// endpoint returns the address of the collector, "" for the SDK's default.
func (env environment) endpoint() string {
	_, value := env.first(endpoints)
	return value
}

// off tells whether tracing is off whatever else is set.
func (env environment) off() bool {
	return strings.EqualFold(env(sdkDisabled), "true") || strings.EqualFold(env(tracesEnabled), "false") || env(tracesExporter) == "none"
}

// protocol returns the protocol for exporting spans, "" if there is nothing to export.
func (env environment) protocol() (string, error) {
	exporter := env(tracesExporter)
	endpointName, endpoint := env.first(endpoints)
	if env.off() || exporter == "" && endpoint == "" {
		return "", nil
	}
	if exporter != "" && exporter != "otlp" {
		return "", fmt.Errorf("environment variable %s is %q; expected otlp or none", tracesExporter, exporter)
	}
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("environment variable %s is %q; expected a URL such as http://collector:4318", endpointName, endpoint)
	}
	name, protocol := env.first(protocols)
	if protocol = cmp.Or(protocol, httpProtobuf); !slices.Contains([]string{httpProtobuf, grpc}, protocol) {
		return "", fmt.Errorf("environment variable %s is %q; expected %s or %s", name, protocol, httpProtobuf, grpc)
	}
	for _, name := range sizes {
		if n, err := strconv.Atoi(strings.TrimSpace(env(name))); err == nil && n < 1 {
			return "", fmt.Errorf("environment variable %s is %d; expected 1 at least", name, n)
		}
	}
	return protocol, nil
}
