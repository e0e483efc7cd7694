package examples_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	rollouts "github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The canary's objects name one another as they have to.
func TestCanaryObjectsFitTogether(t *testing.T) {
	var rollout rollouts.Rollout
	read(t, "canary/rollout.yaml", &rollout)
	var object v1alpha1.HTTPScaledObject
	read(t, "canary-httpscaledobject/httpscaledobject.yaml", &object)
	var ingress networkingv1.Ingress
	read(t, "canary/ingress.yaml", &ingress)
	var scaled struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			MinReplicaCount int32            `json:"minReplicaCount"`
			MaxReplicaCount int32            `json:"maxReplicaCount"`
			ScaleTargetRef  map[string]any   `json:"scaleTargetRef"`
			Triggers        []map[string]any `json:"triggers"`
		} `json:"spec"`
	}
	text, err := os.ReadFile("canary/scaledobject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &scaled); err != nil {
		t.Fatal(err)
	}

	canary := rollout.Spec.Strategy.Canary
	var config struct {
		HTTPScaledObjectName string `json:"httpScaledObjectName"`
	}
	if err := yaml.UnmarshalStrict(canary.TrafficRouting.Plugins["kedify/http"], &config); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, want, got string }{
		{"HTTPScaledObject that the Rollout names", object.Name, config.HTTPScaledObjectName},
		{"HTTPScaledObject, named like its ScaledObject", scaled.Metadata.Name, object.Name},
		{"workload of the ScaledObject", rollout.Name, scaled.Spec.ScaleTargetRef["name"].(string)},
		{"kind of the workload of the ScaledObject", rollout.Kind, scaled.Spec.ScaleTargetRef["kind"].(string)},
		{"workload of the HTTPScaledObject", rollout.Name, object.Spec.ScaleTargetRef.Name},
		{"Service of the HTTPScaledObject", canary.StableService, object.Spec.ScaleTargetRef.Service},
		{"Service of the Ingress", canary.StableService, ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name},
		{"host of the Ingress", object.Spec.Hosts[0], ingress.Spec.Rules[0].Host},
		{"host of the trigger", object.Spec.Hosts[0], scaled.Spec.Triggers[0]["metadata"].(map[string]any)["hosts"].(string)},
		{"annotation that keeps a second ScaledObject away", "true", object.Annotations["httpscaledobject.keda.sh/skip-scaledobject-creation"]},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	if *rollout.Spec.Replicas != scaled.Spec.MinReplicaCount || *object.Spec.Replicas.Min != scaled.Spec.MinReplicaCount || *object.Spec.Replicas.Max != scaled.Spec.MaxReplicaCount {
		t.Errorf("replicas of the Rollout, the ScaledObject and the HTTPScaledObject do not agree: %d, %d to %d, %d to %d",
			*rollout.Spec.Replicas, scaled.Spec.MinReplicaCount, scaled.Spec.MaxReplicaCount, *object.Spec.Replicas.Min, *object.Spec.Replicas.Max)
	}

	text, err = os.ReadFile("canary/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	services := map[string]bool{}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var service corev1.Service
		if err := yaml.UnmarshalStrict(document, &service); err != nil {
			t.Fatal(err)
		}
		services[service.Name] = true
		for key, value := range service.Spec.Selector {
			if rollout.Spec.Template.Labels[key] != value {
				t.Errorf("Service %s selects %s=%s, which the Rollout's pods do not have", service.Name, key, value)
			}
		}
	}
	if !services[canary.StableService] || !services[canary.CanaryService] || canary.StableService == canary.CanaryService {
		t.Errorf("the Rollout names Services %s and %s; there are %v", canary.StableService, canary.CanaryService, services)
	}
}

// The analysis measures what the canary has: its Service, from its first pause on.
func TestAnalysisFitsTheCanary(t *testing.T) {
	for analysis, canary := range map[string]string{"analysis": "canary", "gatewayapi/analysis": "gatewayapi/canary"} {
		t.Run(analysis, func(t *testing.T) { testAnalysisFitsTheCanary(t, analysis, canary) })
	}
}

func testAnalysisFitsTheCanary(t *testing.T, in, canaryIn string) {
	var rollout rollouts.Rollout
	read(t, canaryIn+"/rollout.yaml", &rollout)
	var template rollouts.AnalysisTemplate
	read(t, in+"/analysistemplate.yaml", &template)
	var patch []struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	read(t, in+"/rollout-patch.yaml", &patch)

	var analysis rollouts.RolloutAnalysisBackground
	for _, operation := range patch {
		if operation.Path == "/spec/strategy/canary/analysis" {
			if err := yaml.UnmarshalStrict(operation.Value, &analysis); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(analysis.Templates) != 1 || analysis.Templates[0].TemplateName != template.Name {
		t.Errorf("the Rollout names the templates %v, want %s", analysis.Templates, template.Name)
	}
	if len(analysis.Args) != 1 || len(template.Spec.Args) != 1 || analysis.Args[0].Name != template.Spec.Args[0].Name {
		t.Errorf("the Rollout gives the arguments %v, the template takes %v", analysis.Args, template.Spec.Args)
	}
	canary := rollout.Spec.Strategy.Canary
	firstPause := slices.IndexFunc(canary.Steps, func(s rollouts.CanaryStep) bool { return s.Pause != nil })
	if analysis.StartingStep == nil || int(*analysis.StartingStep) != firstPause {
		t.Errorf("the analysis starts at step %v, want the first pause, %d", analysis.StartingStep, firstPause)
	}
	web := template.Spec.Metrics[0].Provider.Web
	if want := "http://" + canary.CanaryService + ".{{args.namespace}}."; !strings.HasPrefix(web.URL, want) {
		t.Errorf("the analysis asks %s, want the Service of the canary: %s", web.URL, want)
	}
	if want := []rollouts.WebMetricHeader{{Key: "Connection", Value: "close"}}; !slices.Equal(web.Headers, want) {
		t.Errorf("the analysis sends the headers %v, want %v: a kept connection is to a pod of an earlier canary", web.Headers, want)
	}
}

// The objects of the canary behind a Gateway name one another as they have to.
func TestGatewayCanaryObjectsFitTogether(t *testing.T) {
	var rollout rollouts.Rollout
	read(t, "gatewayapi/canary/rollout.yaml", &rollout)
	type reference struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Port      int32  `json:"port"`
		Weight    int32  `json:"weight"`
	}
	var route struct {
		Metadata reference `json:"metadata"`
		Spec     struct {
			ParentRefs []reference `json:"parentRefs"`
			Rules      []struct {
				BackendRefs []reference `json:"backendRefs"`
			} `json:"rules"`
		} `json:"spec"`
	}
	readLoosely(t, "gatewayapi/canary/httproute.yaml", &route)
	var gateway struct {
		Metadata reference `json:"metadata"`
	}
	readLoosely(t, "gatewayapi/gateway/gateway.yaml", &gateway)

	canary := rollout.Spec.Strategy.Canary
	var config struct {
		HTTPRoute string `json:"httpRoute"`
	}
	if err := yaml.UnmarshalStrict(canary.TrafficRouting.Plugins["argoproj-labs/gatewayAPI"], &config); err != nil {
		t.Fatal(err)
	}
	if config.HTTPRoute != route.Metadata.Name {
		t.Errorf("the Rollout names HTTPRoute %s, want %s", config.HTTPRoute, route.Metadata.Name)
	}
	if want := []reference{gateway.Metadata}; !slices.Equal(route.Spec.ParentRefs, want) {
		t.Errorf("the HTTPRoute's parents are %v, want %v", route.Spec.ParentRefs, want)
	}
	if want := []reference{{Name: canary.StableService, Port: 80, Weight: 100}, {Name: canary.CanaryService, Port: 80}}; len(route.Spec.Rules) != 1 || !slices.Equal(route.Spec.Rules[0].BackendRefs, want) {
		t.Errorf("the HTTPRoute's rules are %v, want one with %v", route.Spec.Rules, want)
	}
	var weights []int32
	for _, step := range canary.Steps {
		if step.SetWeight != nil {
			weights = append(weights, *step.SetWeight)
		}
	}
	if want := []int32{5, 25, 50, 75}; !slices.Equal(weights, want) {
		t.Errorf("the steps' weights are %v, want %v", weights, want)
	}
	text, err := os.ReadFile("gatewayapi/canary/services.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var service corev1.Service
		if err := yaml.UnmarshalStrict(document, &service); err != nil {
			t.Fatal(err)
		}
		services = append(services, service.Name)
		if service.Spec.Ports[0].Port != 80 || service.Spec.Ports[0].TargetPort.IntVal != rollout.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort {
			t.Errorf("Service %s has the ports %v, want 80 to the container's", service.Name, service.Spec.Ports)
		}
		for key, value := range service.Spec.Selector {
			if rollout.Spec.Template.Labels[key] != value {
				t.Errorf("Service %s selects %s=%s, which the Rollout's pods do not have", service.Name, key, value)
			}
		}
	}
	if want := []string{canary.StableService, canary.CanaryService}; !slices.Equal(services, want) {
		t.Errorf("there are the Services %v, want %v", services, want)
	}
}

// The samples are in one namespace, so that whoever may deploy there can apply and
// delete it, and no other canary loses the controller's permission with it.
func TestCanaryHoldsNothingOfTheCluster(t *testing.T) {
	for _, dir := range []string{"canary", "gatewayapi/canary"} {
		t.Run(dir, func(t *testing.T) { requireObjectsOfAnApplication(t, dir) })
	}
}

func requireObjectsOfAnApplication(t *testing.T, dir string) {
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	text, err := os.ReadFile(dir + "/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	for _, resource := range kustomization.Resources {
		text, err := os.ReadFile(dir + "/" + resource)
		if err != nil {
			t.Errorf("resource %s is no file beside kustomization.yaml: %v", resource, err)
			continue
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var object struct {
				Kind string `json:"kind"`
			}
			if err := yaml.Unmarshal(document, &object); err != nil {
				t.Fatal(err)
			}
			switch object.Kind {
			case "Service", "Ingress", "HTTPRoute", "Rollout", "ScaledObject", "HTTPScaledObject":
			default:
				t.Errorf("%s: a %s is none of the objects of an application", resource, object.Kind)
			}
		}
	}
}

// readLoosely decodes the keys of a YAML file that a Go type has.
func readLoosely(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// read decodes a YAML file into a Go type, with no key that the type does not
// have.
func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
