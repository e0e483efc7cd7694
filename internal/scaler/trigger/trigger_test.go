package trigger

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

func of(spec httpv1alpha1.HTTPScaledObjectSpec) *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}, Spec: spec}
}

func rate(target int, window, granularity string) httpv1alpha1.HTTPScaledObjectSpec {
	return httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &httpv1alpha1.ScalingMetric{
		RequestRate: &httpv1alpha1.RequestRateMetric{TargetValue: &target, Window: &window, Granularity: &granularity},
	}}
}

func concurrency(target int) httpv1alpha1.HTTPScaledObjectSpec {
	return httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &httpv1alpha1.ScalingMetric{
		Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: &target},
	}}
}

func both() httpv1alpha1.HTTPScaledObjectSpec {
	spec := rate(5, "30s", "2s")
	spec.ScalingMetric.Concurrency = concurrency(7).ScalingMetric.Concurrency
	return spec
}

type metadata = map[string]string

// The trigger comes before the object, key by key.
func TestParse(t *testing.T) {
	none := httpv1alpha1.HTTPScaledObjectSpec{}
	ofObject := figures.Window{Length: 30 * time.Second, Granularity: 2 * time.Second}
	for name, tt := range map[string]struct {
		metadata metadata
		spec     httpv1alpha1.HTTPScaledObjectSpec
		want     Trigger
	}{
		"all of the object's":                {nil, rate(5, "30s", "2s"), Trigger{RequestRate, 5, ofObject}},
		"concurrency of the object":          {nil, concurrency(7), Trigger{Concurrency, 7, figures.DefaultWindow}},
		"one of two metrics":                 {metadata{"scalingMetric": "concurrency"}, both(), Trigger{Concurrency, 7, ofObject}},
		"all of the trigger's":               {metadata{"scalingMetric": "requestRate", "targetValue": "2.5", "window": "10s", "granularity": "100ms"}, none, Trigger{RequestRate, 2.5, figures.Window{Length: 10 * time.Second, Granularity: 100 * time.Millisecond}}},
		"target of the trigger":              {metadata{"targetValue": "50"}, rate(5, "30s", "2s"), Trigger{RequestRate, 50, ofObject}},
		"window of the trigger":              {metadata{"window": "20s"}, rate(5, "30s", "2s"), Trigger{RequestRate, 5, figures.Window{Length: 20 * time.Second, Granularity: 2 * time.Second}}},
		"another metric than the object has": {metadata{"scalingMetric": "concurrency", "targetValue": "3"}, rate(5, "30s", "2s"), Trigger{Concurrency, 3, ofObject}},
		"keys of KEDA and of kedify-http": {metadata{
			"scalerAddress": "x:9090", "scalerAddressFromEnv": "X", "enableTLS": "true", "unsafeSsl": "true", "caCert": "x", "tlsClientCert": "x", "tlsClientKey": "x",
			"hosts": "a", "pathPrefixes": "/", "headers": "x", "service": "web", "port": "80", "portName": "http", "trafficAutowire": "httproute",
			"fallbackService": "b", "healthcheckPath": "/", "healthcheckResponse": "static", "tlsSecretName": "s", "externalProxyMetricKey": "k",
		}, concurrency(7), Trigger{Concurrency, 7, figures.DefaultWindow}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.metadata, of(tt.spec))
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// An error says where the mistake is and what to do.
func TestParseErrors(t *testing.T) {
	none := httpv1alpha1.HTTPScaledObjectSpec{}
	withoutTarget := concurrency(1)
	withoutTarget.ScalingMetric.Concurrency.TargetValue = nil
	for name, tt := range map[string]struct {
		metadata metadata
		spec     httpv1alpha1.HTTPScaledObjectSpec
		says     []string
	}{
		"no target":                 {nil, none, []string{"no target", "set spec.scalingMetric of HTTPScaledObject demo/web", "scalingMetric and targetValue in the trigger's metadata"}},
		"a metric without target":   {metadata{"scalingMetric": "requestRate"}, concurrency(7), []string{"no target for requestRate", "set targetValue", "spec.scalingMetric.requestRate.targetValue of HTTPScaledObject demo/web"}},
		"an object without target":  {nil, withoutTarget, []string{"no target for concurrency", "spec.scalingMetric.concurrency.targetValue"}},
		"two metrics":               {nil, both(), []string{"HTTPScaledObject demo/web has two metrics", "remove one", "scalingMetric"}},
		"an unknown metric":         {metadata{"scalingMetric": "rps"}, both(), []string{`scalingMetric is "rps"`, "set it to requestRate or concurrency"}},
		"a target of words":         {metadata{"targetValue": "many"}, both(), []string{"two metrics"}},
		"a target that is no value": {metadata{"targetValue": "many"}, concurrency(7), []string{`targetValue is "many"`, "set it to a number"}},
		"a target of 0":             {metadata{"targetValue": "0"}, concurrency(7), []string{`targetValue is "0"`}},
		"a target of NaN":           {metadata{"targetValue": "NaN"}, concurrency(7), []string{`targetValue is "NaN"`}},
		"a target too large":        {metadata{"targetValue": "1e300"}, concurrency(7), []string{`targetValue is "1e300"`}},
		"a target of the object":    {nil, concurrency(0), []string{"HTTPScaledObject demo/web: spec.scalingMetric.concurrency.targetValue is 0", "above 0"}},
		"a window without unit":     {metadata{"window": "60"}, concurrency(7), []string{`window is "60"`, "1m30s"}},
		"a window of the object":    {nil, rate(5, "often", "1s"), []string{`window is "often"`, "spec.scalingMetric.requestRate of HTTPScaledObject demo/web"}},
		"a granularity too coarse":  {metadata{"window": "1s", "granularity": "2s"}, concurrency(7), []string{"granularity is 2s"}},
		"a misspelled key":          {metadata{"granularty": "1s"}, concurrency(7), []string{`the key "granularty": did you mean "granularity"?`}},
		"a key in small letters":    {metadata{"targetvalue": "5"}, concurrency(7), []string{`did you mean "targetValue"?`}},
		"a key with more":           {metadata{"httpScaledObjectName": "x"}, concurrency(7), []string{`did you mean "httpScaledObject"?`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.metadata, of(tt.spec))
			if err == nil {
				t.Fatalf("no error: %+v", got)
			}
			for _, part := range tt.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("no %q in: %v", part, err)
				}
			}
		})
	}
}

// httpScaledObject names the object, else it has the ScaledObject's name.
func TestObject(t *testing.T) {
	for name, tt := range map[string]struct {
		metadata metadata
		want     string
	}{
		"named":     {metadata{"httpScaledObject": "web"}, "demo/web"},
		"not named": {nil, "demo/scaled"},
		"empty":     {metadata{"httpScaledObject": ""}, "demo/scaled"},
	} {
		if got := Object("demo", "scaled", tt.metadata).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// A metric's name stays as long as object and metric do.
func TestMetricName(t *testing.T) {
	web := types.NamespacedName{Namespace: "demo", Name: "web"}
	if got, want := (Trigger{Metric: RequestRate}).MetricName(web), "http-demo-web-requestrate"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What a trigger says is taken as Trigger promises, or refused with an error.
func FuzzParse(f *testing.F) {
	f.Add("scalingMetric", "requestRate", "targetValue", "5", "1m", "1s", 100)
	f.Add("window", "90s", "granularity", "10ms", "", "", -1)
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, window, granularity string, target int) {
		got, err := Parse(metadata{key1: value1, key2: value2}, of(rate(target, window, granularity)))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		if got.Metric != RequestRate && got.Metric != Concurrency || !(got.Target > 0) || got.Window.Validate() != nil {
			t.Errorf("%q %q, %q %q, window %q, granularity %q, target %d: %+v", key1, value1, key2, value2, window, granularity, target, got)
		}
	})
}
