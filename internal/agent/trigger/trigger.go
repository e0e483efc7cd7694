// Package trigger says which HTTPScaledObject a ScaledObject with a kedify-http trigger asks
// for. It reads nothing but what it is given.
package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	scaler "github.com/kedify/argo-rollouts-plugin/internal/scaler/trigger"
)

// defaultTarget is what a trigger without targetValue asks for.
const defaultTarget = 100

// mostHeaders bounds the text of headers, in bytes: YAML takes its time.
const mostHeaders = 64 << 10

// Of returns the kedify-http trigger of a ScaledObject; nil if it has none. More than one
// is an error: they would need an HTTPScaledObject of its name each.
func Of(so *scaledobject.ScaledObject) (*scaledobject.Trigger, error) {
	var found *scaledobject.Trigger
	for i := range so.Spec.Triggers {
		switch t := &so.Spec.Triggers[i]; {
		case !t.IsKedifyHTTP():
		case found != nil:
			return nil, fmt.Errorf("spec.triggers has more than one of type %s: keep one, and put the hosts and pathPrefixes of all into it", scaledobject.KedifyHTTP)
		default:
			found = t
		}
	}
	return found, nil
}

// spec returns the spec that a trigger asks for, with this Service.
func spec(so *scaledobject.ScaledObject, metadata map[string]string, service string) (s httpv1alpha1.HTTPScaledObjectSpec, err error) {
	if err = checkKeys(metadata); err != nil {
		return s, err
	}
	if name := metadata[objectKey]; name != "" && name != so.Name {
		return s, fmt.Errorf("%s is %.100q: remove it, as the HTTPScaledObject of this trigger is called as the ScaledObject", objectKey, name)
	}
	if _, named := metadata[hostsKey]; !named {
		return s, fmt.Errorf("%s is missing: set it to the hosts of the requests, comma-separated, or to * for any host", hostsKey)
	}
	if s.Hosts, err = list(metadata, hostsKey); err != nil {
		return s, err
	}
	if s.PathPrefixes, err = list(metadata, pathPrefixesKey); err != nil {
		return s, err
	}
	if s.Headers, err = headers(metadata); err != nil {
		return s, err
	}
	target := so.Spec.ScaleTargetRef
	s.ScaleTargetRef = httpv1alpha1.ScaleTargetRef{
		APIVersion: cmp.Or(target.APIVersion, "apps/v1"), Kind: cmp.Or(target.Kind, "Deployment"), Name: target.Name, Service: service,
	}
	if s.ScaleTargetRef.Port, s.ScaleTargetRef.PortName, err = port(metadata); err != nil {
		return s, err
	}
	if so.Spec.MinReplicaCount != nil || so.Spec.MaxReplicaCount != nil {
		s.Replicas = &httpv1alpha1.ReplicaBounds{Min: so.Spec.MinReplicaCount, Max: so.Spec.MaxReplicaCount}
	}
	s.ScalingMetric, err = scalingMetric(metadata)
	return s, err
}

// list reads a comma-separated list; nil if the key is not there.
func list(metadata map[string]string, key string) ([]string, error) {
	text, named := metadata[key]
	if !named {
		return nil, nil
	}
	entries := strings.Split(text, ",")
	for i := range entries {
		if entries[i] = strings.TrimSpace(entries[i]); entries[i] == "" {
			return nil, fmt.Errorf("%s is %.200q: its entry %d is empty", key, text, i+1)
		}
	}
	return entries, nil
}

// headers reads Kedify's form of headers: a YAML list of name and value, of which the value
// may be left out, for any.
func headers(metadata map[string]string) ([]httpv1alpha1.Header, error) {
	text, named := metadata[headersKey]
	if !named {
		return nil, nil
	}
	const want = "set it to a YAML list of {name, value}"
	if len(text) > mostHeaders {
		return nil, fmt.Errorf("%s has %d bytes, above %d", headersKey, len(text), mostHeaders)
	}
	var entries []httpv1alpha1.Header
	if err := yaml.UnmarshalStrict([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("%s is %.200q: %s: %w", headersKey, text, want, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s is %.200q: %s, or remove it", headersKey, text, want)
	}
	return entries, nil
}

// port reads port or portName, of which there has to be one.
func port(metadata map[string]string) (number *int32, name *string, err error) {
	text, numbered := metadata[portKey]
	word, named := metadata[portNameKey]
	switch {
	case numbered == named:
		return nil, nil, fmt.Errorf("set either %s or %s: the Service's port, by number or by name", portKey, portNameKey)
	case named:
		return nil, &word, nil
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < 1 || value > math.MaxUint16 {
		return nil, nil, fmt.Errorf("%s is %.100q: set it to a number from 1 to %d, or use %s", portKey, text, math.MaxUint16, portNameKey)
	}
	port := int32(value)
	return &port, nil, nil
}

// scalingMetric returns the metric by the scaler's verdict on it. A target that is no whole
// number is rounded up: the scaler reads the trigger's, people see the object's.
func scalingMetric(metadata map[string]string) (*httpv1alpha1.ScalingMetric, error) {
	of := func(metric scaler.Metric, target int) *httpv1alpha1.ScalingMetric {
		if metric == scaler.Concurrency {
			return &httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: &target}}
		}
		return &httpv1alpha1.ScalingMetric{RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: &target}}
	}
	silent := of(scaler.Metric(metadata[metricKey]), defaultTarget)
	t, err := scaler.Parse(metadata, &httpv1alpha1.HTTPScaledObject{Spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: silent}})
	if err != nil {
		return nil, err
	}
	metric := of(t.Metric, int(math.Ceil(t.Target)))
	if rate := metric.RequestRate; rate != nil {
		// In the trigger's own words, and where it is silent in those of the definition's
		// default: 1m, not 1m0s.
		rate.Window, rate.Granularity = words(metadata, windowKey, "1m"), words(metadata, granularityKey, "1s")
	}
	return metric, nil
}

func words(metadata map[string]string, key, otherwise string) *string {
	if text, named := metadata[key]; named {
		return &text
	}
	return &otherwise
}

// servable returns why interceptors would not serve an object, nil if they would.
func servable(object *httpv1alpha1.HTTPScaledObject) error {
	if err := routes.Refused(object); err != nil {
		return fmt.Errorf("interceptors would not serve what it asks for: %w", err)
	}
	return nil
}

// Ingress is the kind of object that is wired.
const Ingress = "ingress"

// autowireKinds are all kinds of Kedify's.
var autowireKinds = []string{"httproute", Ingress, "virtualservice", "route", "service", "gloo"}

// Autowire returns the kinds of object that the text of trafficAutowire asks to be pointed
// at kedify-proxy; none for "false".
func Autowire(text string) ([]string, error) {
	if strings.TrimSpace(text) == "false" {
		return nil, nil
	}
	kinds, err := list(map[string]string{autowireKey: text}, autowireKey)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if kind == "false" {
			return nil, errors.New(autowireKey + " has false beside others: remove one or the other")
		}
		if !slices.Contains(autowireKinds, kind) {
			return nil, fmt.Errorf("%s has %.100q: did you mean %q?", autowireKey, kind, nearest.Word(kind, append([]string{"false"}, autowireKinds...)))
		}
	}
	return kinds, nil
}
