package trigger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
)

// The keys of a trigger's metadata that are read here. The scaler reads those of the metric.
const (
	hostsKey        = "hosts"
	pathPrefixesKey = "pathPrefixes"
	headersKey      = "headers"
	serviceKey      = "service"
	portKey         = "port"
	portNameKey     = "portName"
	metricKey       = "scalingMetric"
	windowKey       = "window"
	granularityKey  = "granularity"
	autowireKey     = "trafficAutowire"
	objectKey       = "httpScaledObject"
)

// known are all keys that are served: here, by the scaler, or by KEDA for an external-push
// trigger.
var known = []string{
	hostsKey, pathPrefixesKey, headersKey, serviceKey, portKey, portNameKey,
	metricKey, "targetValue", windowKey, granularityKey, autowireKey, objectKey,
	scaledobject.ScalerAddressKey, scaledobject.TypeKey, "enableTLS", "unsafeSsl",
}

// notServed are the keys of Kedify's that nothing here serves, and notServedAbout what others
// of them begin with, the names of which there are many.
var (
	notServed      = []string{"fallbackService", "healthcheckPath", "healthcheckResponse", "tlsSecretName", "externalProxyMetricKey"}
	notServedAbout = []string{"coldStartWaitingPage", "maintenancePage"}
)

// checkKeys returns an error that names the first key that is not served. A trigger with one
// is not made an object of in part: the key may say where requests go.
func checkKeys(metadata map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch {
		case slices.Contains(known, key):
		case slices.Contains(notServed, key),
			slices.ContainsFunc(notServedAbout, func(prefix string) bool { return strings.HasPrefix(key, prefix) }):
			return fmt.Errorf("%s is a key of Kedify's that is not served here: remove it", key)
		default:
			return fmt.Errorf("there is no key %.100q: did you mean %q?", key, nearest.Word(key, known))
		}
	}
	return nil
}
