package trigger

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	scaler "github.com/kedify/argo-rollouts-plugin/internal/scaler/trigger"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml as they come out")

// TestGolden makes the HTTPScaledObject of each ScaledObject in testdata/*.in.yaml, with the
// Service of the trigger, else "stable"; go test -update writes *.out.yaml.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, in := range files {
		out := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			so := new(scaledobject.ScaledObject)
			if err := yaml.Unmarshal(text, so); err != nil {
				t.Fatal(err)
			}
			asked, err := Of(so)
			if err != nil || asked == nil {
				t.Fatalf("trigger %v, %v", asked, err)
			}
			service := "stable"
			if named := asked.Metadata[serviceKey]; named != "" {
				service = named
			}
			object, err := Object(so, asked, service)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatalf("%v (go test -update writes it)", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", out, diff)
			}
		})
	}
}

type metadata = map[string]string

func kedifyHTTP(metadata metadata) scaledobject.Trigger {
	return scaledobject.Trigger{Type: scaledobject.KedifyHTTP, Metadata: metadata}
}

func with(triggers ...scaledobject.Trigger) *scaledobject.ScaledObject {
	return &scaledobject.ScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       scaledobject.Spec{ScaleTargetRef: scaledobject.ScaleTargetRef{Name: "web"}, Triggers: triggers},
	}
}

// good returns metadata that can be served, changed as told; a value "-" takes a key away.
func good(change metadata) metadata {
	m := metadata{"hosts": "shop.example.com", "service": "web", "port": "80"}
	maps.Copy(m, change)
	maps.DeleteFunc(m, func(_, value string) bool { return value == "-" })
	return m
}

// Each error names the key and says what to do.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change metadata
		want   string
	}{
		"a key in the wrong case":        {metadata{"Hosts": "a"}, `there is no key "Hosts": did you mean "hosts"?`},
		"a misspelled key":               {metadata{"pathPrefix": "/"}, `there is no key "pathPrefix": did you mean "pathPrefixes"?`},
		"a misspelled key of the metric": {metadata{"targetvalue": "1"}, `did you mean "targetValue"?`},
		"a key of Kedify's":              {metadata{"tlsSecretName": "x"}, "tlsSecretName is a key of Kedify's that is not served here: remove it"},
		"one of many keys of Kedify's":   {metadata{"coldStartWaitingPageEnabled": "true"}, "coldStartWaitingPageEnabled is a key of Kedify's"},
		"another object":                 {metadata{"httpScaledObject": "other"}, `httpScaledObject is "other": remove it`},
		"no hosts":                       {metadata{"hosts": "-"}, "hosts is missing"},
		"an empty host":                  {metadata{"hosts": "a.example.com,"}, `hosts is "a.example.com,": its entry 2 is empty`},
		"no host":                        {metadata{"hosts": "http://a"}, `spec.hosts[0]: "http://a" is not a host name`},
		"no path":                        {metadata{"pathPrefixes": "/a?b"}, "spec.pathPrefixes[0]"},
		"headers that are no YAML":       {metadata{"headers": "a: ["}, "headers is"},
		"headers that are no list":       {metadata{"headers": "X-A=b"}, "set it to a YAML list of {name, value}"},
		"headers with another field":     {metadata{"headers": "- {name: a, regex: b}"}, `unknown field "regex"`},
		"no header":                      {metadata{"headers": "[]"}, "or remove it"},
		"a header without a name":        {metadata{"headers": "- value: a"}, "spec.headers[0]: a header has no name"},
		"headers without end":            {metadata{"headers": strings.Repeat("#", mostHeaders+1)}, "above 65536"},
		"no port":                        {metadata{"port": "-"}, "set either port or portName"},
		"two ports":                      {metadata{"portName": "http"}, "set either port or portName"},
		"a port that is no number":       {metadata{"port": "http"}, `port is "http": set it to a number from 1 to 65535, or use portName`},
		"a port out of range":            {metadata{"port": "65536"}, `port is "65536"`},
		"an empty name of a port":        {metadata{"port": "-", "portName": ""}, "spec.scaleTargetRef.portName: is empty"},
		"an unknown metric":              {metadata{"scalingMetric": "requests"}, "set it to requestRate or concurrency"},
		"a target of none":               {metadata{"targetValue": "0"}, `targetValue is "0"`},
		"a window that is too long":      {metadata{"window": "2h"}, "window is 2h0m0s: set it above 0 and up to 1h0m0s"},
		"an unknown kind":                {metadata{"trafficAutowire": "ingres"}, `trafficAutowire has "ingres": did you mean "ingress"?`},
		"false beside a kind":            {metadata{"trafficAutowire": "false,ingress"}, "trafficAutowire has false beside others"},
		"no kind":                        {metadata{"trafficAutowire": ""}, "its entry 1 is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := kedifyHTTP(good(tt.change))
			object, err := Object(with(asked), &asked, "web")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "metadata of the kedify-http trigger: ") {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if object != nil {
				t.Errorf("an object beside the error: %v", object)
			}
		})
	}
}

// A trigger counts as the user wrote it and as the webhook has changed it.
func TestOf(t *testing.T) {
	changed := scaledobject.Trigger{Type: scaledobject.ExternalPush, Metadata: metadata{scaledobject.TypeKey: scaledobject.KedifyHTTP}}
	others := []scaledobject.Trigger{{Type: scaledobject.ExternalPush}, {Type: "cpu", Metadata: metadata{scaledobject.TypeKey: scaledobject.KedifyHTTP}}}
	for name, tt := range map[string]struct {
		triggers []scaledobject.Trigger
		want     string
		err      bool
	}{
		"none":       {triggers: others},
		"as written": {triggers: append(others, kedifyHTTP(nil)), want: scaledobject.KedifyHTTP},
		"changed":    {triggers: append(others, changed), want: scaledobject.ExternalPush},
		"two":        {triggers: []scaledobject.Trigger{kedifyHTTP(nil), changed}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Of(with(tt.triggers...))
			got := ""
			if found != nil {
				got = found.Type
			}
			if got != tt.want || (err != nil) != tt.err {
				t.Errorf("got %q, %v, want %q, error %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestService(t *testing.T) {
	canary := func(c v1alpha1.CanaryStrategy) *v1alpha1.Rollout {
		return &v1alpha1.Rollout{Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &c}}}
	}
	pingPong := canary(v1alpha1.CanaryStrategy{PingPong: &v1alpha1.PingPongSpec{PingService: "ping", PongService: "pong"}})
	pinged := pingPong.DeepCopy()
	pinged.Status.Canary.StablePingPong = v1alpha1.PPPing
	blueGreen := &v1alpha1.Rollout{Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{BlueGreen: &v1alpha1.BlueGreenStrategy{ActiveService: "active"}}}}
	stable := canary(v1alpha1.CanaryStrategy{StableService: "stable"})
	for name, tt := range map[string]struct {
		rollout              *v1alpha1.Rollout
		named                string
		want, warning, wrong string
	}{
		"a Deployment's":                  {named: "web", want: "web"},
		"a Deployment's that is missing":  {wrong: "service is missing"},
		"a canary's":                      {rollout: stable, want: "stable"},
		"a canary's and the trigger's":    {rollout: stable, named: "stable", want: "stable"},
		"a canary's, not the trigger's":   {rollout: stable, named: "web", want: "stable", warning: `"web", Rollout`},
		"pingPong's before any promotion": {rollout: pingPong, want: "pong"},
		"pingPong's after one":            {rollout: pinged, want: "ping"},
		"blueGreen's":                     {rollout: blueGreen, want: "active"},
		"a canary's that is missing":      {rollout: canary(v1alpha1.CanaryStrategy{}), named: "web", wrong: "names no Service for its stable side"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := kedifyHTTP(metadata{serviceKey: tt.named})
			got, warning, err := Service(with(asked), &asked, tt.rollout)
			if got != tt.want && tt.wrong == "" || !strings.Contains(warning, tt.warning) || (warning == "") != (tt.warning == "") {
				t.Errorf("got %q, %q, want %q, %q", got, warning, tt.want, tt.warning)
			}
			if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("error %v, want %q", err, tt.wrong)
			}
		})
	}
}

// No text makes an object that interceptors or scalers refuse.
func FuzzObject(f *testing.F) {
	f.Add("hosts", "a,b", "headers", "- name: a\n  value: b\n", "ingress")
	f.Add("targetValue", "2147483646.5", "scalingMetric", "concurrency", "false")
	f.Add("portName", "http", "pathPrefixes", "/a, /b", "httproute,service")
	f.Add("window", "90s", "granularity", "10ms", "")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, autowire string) {
		asked := kedifyHTTP(good(metadata{key1: value1, key2: value2, autowireKey: autowire}))
		object, err := Object(with(asked), &asked, "web")
		if err != nil {
			return
		}
		if err := routes.Refused(object); err != nil {
			t.Errorf("interceptors refuse it: %v", err)
		}
		byScaler, err := scaler.Parse(asked.Metadata, object)
		if err != nil {
			t.Errorf("scalers refuse it: %v", err)
		}
		// Without the trigger's, the object's own metric is the same, but for a fraction.
		byObject, err := scaler.Parse(nil, object)
		if err != nil || byObject.Metric != byScaler.Metric || byObject.Target < byScaler.Target || byObject.Target >= byScaler.Target+1 {
			t.Errorf("scalers make %+v of the trigger, %+v of the object (%v)", byScaler, byObject, err)
		}
	})
}
