// Package trigger reads what a trigger of a ScaledObject and its HTTPScaledObject ask to be
// scaled by.
package trigger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// Metric is what a workload is scaled by.
type Metric string

// The metrics, by their names in a trigger's metadata and in spec.scalingMetric.
const (
	RequestRate Metric = "requestRate"
	Concurrency Metric = "concurrency"
)

// The keys of a trigger's metadata. All but the first replace what the HTTPScaledObject says.
const (
	objectKey      = "httpScaledObject"
	metricKey      = "scalingMetric"
	targetKey      = "targetValue"
	windowKey      = "window"
	granularityKey = "granularity"
)

var keys = []string{objectKey, metricKey, targetKey, windowKey, granularityKey}

// Trigger is what is to be scaled by. Target is above 0, of one replica. Window is valid,
// also for Concurrency, where it tells how long a workload stays active.
type Trigger struct {
	Metric Metric
	Target float64
	Window figures.Window
}

// Object returns the name of the HTTPScaledObject of a trigger: it is in the namespace of
// the ScaledObject, and has its name if the metadata names none.
func Object(namespace, scaledObject string, metadata map[string]string) types.NamespacedName {
	key := types.NamespacedName{Namespace: namespace, Name: scaledObject}
	if name := metadata[objectKey]; name != "" {
		key.Name = name
	}
	return key
}

// MetricName returns the name of an HTTPScaledObject's metric. Another metric has another
// name, so that a value is never compared with a target of the other.
func (t Trigger) MetricName(object types.NamespacedName) string {
	return fmt.Sprintf("http-%s-%s-%s", object.Namespace, object.Name, strings.ToLower(string(t.Metric)))
}

// Parse returns what a trigger with this metadata asks for, and where it is silent, what its
// HTTPScaledObject does. An error says what to change.
func Parse(metadata map[string]string, object *httpv1alpha1.HTTPScaledObject) (Trigger, error) {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if meant := misspelled(key); meant != "" {
			return Trigger{}, fmt.Errorf("trigger metadata has the key %q: did you mean %q?", key, meant)
		}
	}
	metric, err := chosen(metadata, object)
	if err != nil {
		return Trigger{}, err
	}
	t := Trigger{Metric: metric}
	if t.Target, err = target(metric, metadata, object); err != nil {
		return Trigger{}, err
	}
	if t.Window, err = window(metadata, object); err != nil {
		return Trigger{}, err
	}
	return t, nil
}

// misspelled returns the key that was meant, none if the key is nobody's mistake: two thirds
// of it have to be right.
func misspelled(key string) string {
	if slices.Contains(keys, key) || len(key) > 2*len(objectKey) {
		return ""
	}
	meant := nearest.Word(key, keys)
	if nearest.Edits(key, meant) > len(meant)/3 {
		return ""
	}
	return meant
}

// chosen returns the metric that a trigger names, else the one that its object has.
func chosen(metadata map[string]string, object *httpv1alpha1.HTTPScaledObject) (Metric, error) {
	if text, named := metadata[metricKey]; named {
		metric := Metric(text)
		if metric != RequestRate && metric != Concurrency {
			return "", fmt.Errorf("trigger metadata %s is %.100q: set it to %s or %s", metricKey, text, RequestRate, Concurrency)
		}
		return metric, nil
	}
	of := object.Spec.ScalingMetric
	switch {
	case of != nil && of.RequestRate != nil && of.Concurrency != nil:
		return "", fmt.Errorf("HTTPScaledObject %s/%s has two metrics in spec.scalingMetric: remove one, or choose one by %s in the trigger's metadata",
			object.Namespace, object.Name, metricKey)
	case of != nil && of.RequestRate != nil:
		return RequestRate, nil
	case of != nil && of.Concurrency != nil:
		return Concurrency, nil
	}
	return "", fmt.Errorf("there is no target: set spec.scalingMetric of HTTPScaledObject %s/%s, or %s and %s in the trigger's metadata",
		object.Namespace, object.Name, metricKey, targetKey)
}

// target returns the target of a metric that a trigger has, else that of its object.
func target(metric Metric, metadata map[string]string, object *httpv1alpha1.HTTPScaledObject) (float64, error) {
	if text, named := metadata[targetKey]; named {
		value, err := strconv.ParseFloat(text, 64)
		// KEDA and the HorizontalPodAutoscaler count in thousandths.
		if err != nil || math.IsNaN(value) || value < 0.001 || value > math.MaxInt32 {
			return 0, fmt.Errorf("trigger metadata %s is %.100q: set it to a number from 0.001 to %d", targetKey, text, math.MaxInt32)
		}
		return value, nil
	}
	field, value := ofObject(metric, object.Spec)
	if value == nil {
		return 0, fmt.Errorf("there is no target for %s: set %s in the trigger's metadata, or %s of HTTPScaledObject %s/%s",
			metric, targetKey, field, object.Namespace, object.Name)
	}
	if *value < 1 || *value > math.MaxInt32 {
		return 0, fmt.Errorf("HTTPScaledObject %s/%s: %s is %d: set it above 0 and up to %d", object.Namespace, object.Name, field, *value, math.MaxInt32)
	}
	return float64(*value), nil
}

// ofObject returns the field of an HTTPScaledObject that has the target of a metric, and its
// value, nil for none.
func ofObject(metric Metric, spec httpv1alpha1.HTTPScaledObjectSpec) (field string, value *int) {
	field = fmt.Sprintf("spec.scalingMetric.%s.targetValue", metric)
	of := spec.ScalingMetric
	switch {
	case metric == RequestRate && of != nil && of.RequestRate != nil:
		return field, of.RequestRate.TargetValue
	case metric == Concurrency && of != nil && of.Concurrency != nil:
		return field, of.Concurrency.TargetValue
	}
	return field, nil
}

// window returns the window and the granularity of a trigger, else those of its object, else
// the default ones.
func window(metadata map[string]string, object *httpv1alpha1.HTTPScaledObject) (figures.Window, error) {
	w := figures.DefaultWindow
	rate := new(httpv1alpha1.RequestRateMetric)
	if of := object.Spec.ScalingMetric; of != nil && of.RequestRate != nil {
		rate = of.RequestRate
	}
	err := duration(&w.Length, windowKey, metadata, rate.Window)
	if err == nil {
		err = duration(&w.Granularity, granularityKey, metadata, rate.Granularity)
	}
	if err == nil {
		err = w.Validate()
	}
	if err != nil {
		return w, fmt.Errorf("trigger metadata, or spec.scalingMetric.requestRate of HTTPScaledObject %s/%s: %w",
			object.Namespace, object.Name, err)
	}
	return w, nil
}

func duration(into *time.Duration, key string, metadata map[string]string, ofObject *string) error {
	text, named := metadata[key]
	if !named {
		if ofObject == nil {
			return nil
		}
		text = *ofObject
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s is %.100q: set it to a duration such as 500ms, 20s or 1m30s", key, text)
	}
	*into = value
	return nil
}
