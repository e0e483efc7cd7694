package check

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// healthyScaled is healthy, with the scaler of this project in the place of Kedify's, and
// kedify-proxies that report to it.
func healthyScaled() snapshot {
	s := healthy()
	s.httpso().Spec.ScalingMetric = parse[httpScaledObject](`
spec: {scaleTargetRef: {service: "", port: 0, portName: ""}, scalingMetric: {requestRate: {targetValue: 5, window: 1m, granularity: 1s}}}
`).Spec.ScalingMetric
	s.objects.scaledObjects.Value[0] = parse[scaledObject](`
metadata: {name: demo, namespace: shop}
spec:
  minReplicaCount: 0
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: demo}
  triggers: [{type: external-push, metadata: {scalerAddress: "keda-add-ons-http-external-scaler.keda:9090"}}]
status:
  conditions:
  - {type: Ready, status: "True", reason: ScaledObjectReady, message: ready for scaling}
  - {type: HPAActive, status: "True", reason: HPAActive, message: HPA is actively scaling}
  - {type: Fallback, status: "False", reason: NoFallbackFound, message: none}
  - {type: Paused, status: "False", reason: ScaledObjectUnpaused, message: not paused}
`)
	slice := endpoints(scalerService)
	slice.Ports[0].Name = new(string)
	*slice.Ports[0].Name = "grpc"
	s.scalers = []scalerAddress{{
		namespace: "keda", port: "9090",
		service:        read[corev1.Service]{Value: scalerServiceObject()},
		endpointSlices: read[[]endpointSlice]{Value: []endpointSlice{slice}},
	}}
	s.withProxies()
	for i := range s.proxies.proxies {
		s.proxies.proxies[i].state.reportsLoad = true
	}
	return s
}

func scalerServiceObject() corev1.Service {
	return parse[corev1.Service](`
metadata: {name: keda-add-ons-http-external-scaler, namespace: keda}
spec: {clusterIP: None, selector: {app: scaler}, ports: [{name: grpc, port: 9090, targetPort: grpc}]}
`)
}

func TestHealthyScalerHasOnlyTicks(t *testing.T) {
	bare := healthyScaled() // in KEDA's own namespace a name is enough
	bare.metadata()["scalerAddress"] = scalerService + ":9090"
	full := healthyScaled()
	full.metadata()["scalerAddress"] = scalerService + ".keda.svc.cluster.local:9090"
	ofTrigger := healthyScaled()
	ofTrigger.httpso().Spec.ScalingMetric = nil
	ofTrigger.metadata()["scalingMetric"], ofTrigger.metadata()["targetValue"] = "concurrency", "0.5"
	idle := healthyScaled()
	idle.settle()
	inPause := healthyScaled() // Argo Rollouts sets weight 0 while the canary has no pod
	inPause.demo().Status.Canary.Weights.Canary.Weight, inPause.demo().Status.Canary.Weights.Stable.Weight = 0, 100
	delete(inPause.httpso().Annotations, weightedbackends.Annotation)
	delete(inPause.httpso().Annotations, weightedbackends.OwnerAnnotation)
	for _, s := range []*snapshot{&idle, &inPause} {
		s.demo().Spec.Replicas = new(int32)
		s.objects.replicaSets.Value = []replicaSet{replicaSetOf("blue", "0"), replicaSetOf("green", "0")}
		s.objects.endpointSlices.Value, s.objects.pods.Value, s.proxies = nil, nil, proxySnapshot{}
	}
	for name, s := range map[string]snapshot{"as in the guide": healthyScaled(), "bare name": bare, "full name": full, "target of the trigger": ofTrigger,
		"at zero pods": idle, "at zero pods in a pause": inPause} {
		t.Run(name, func(t *testing.T) {
			var made []string
			for _, result := range look(s) {
				if result.Status != OK {
					t.Errorf("%+v", result)
				}
				made = append(made, result.Check)
			}
			for _, check := range []string{"scaler-endpoints", "scaledobject-trigger", "load-reports", "scaledobject-ready", "scaledobject-min-replicas", "backends-ready"} {
				if !slices.Contains(made, check) && (check != "load-reports" || len(s.proxies.proxies) > 0) {
					t.Errorf("%s is not made", check)
				}
			}
		})
	}
}

func (s *snapshot) metadata() map[string]string {
	return s.objects.scaledObjects.Value[0].Spec.Triggers[0].Metadata
}

func (s *snapshot) conditions() []condition {
	return s.objects.scaledObjects.Value[0].Status.Conditions
}

// hpaMessage is how KEDA v2.21.0 begins the message of HPAActive, before what its operator
// said to the HPA.
const hpaMessage = "HPA is not actively scaling: the HPA was unable to compute the replica count: unable to get external metric " +
	"shop/s0-http-shop-demo-requestrate/&LabelSelector{MatchLabels:map[string]string{scaledobject.keda.sh/name: demo,},MatchExpressions:[]LabelSelectorRequirement{},}: " +
	"unable to fetch metrics from external metrics API: rpc error: code = Unknown desc = error when getting metric values "

func TestScalerFaults(t *testing.T) {
	const scaled, service = "ScaledObject shop/demo", "Service keda/keda-add-ons-http-external-scaler"
	trigger := func(status Status, says ...string) []finding {
		return []finding{{"scaledobject-trigger", status, scaled, says}}
	}
	ready := func(status Status, says ...string) []finding {
		return []finding{{"scaledobject-ready", status, scaled, says}}
	}
	endpointsOf := func(status Status, says ...string) []finding {
		return []finding{{"scaler-endpoints", status, service, says}}
	}
	window := func(s *snapshot) *string { return s.httpso().Spec.ScalingMetric.RequestRate.Window }
	testFaultsOf(t, healthyScaled, faults{
		"not installed": {func(s *snapshot) {
			s.scalers[0].service = read[corev1.Service]{Err: &readError{Verb: "get", Err: errNotServed}}
		}, endpointsOf(Failure, "does not exist", "install deploy/scaler")},
		"no ready scaler": {func(s *snapshot) {
			s.scalers[0].endpointSlices.Value = nil
		}, endpointsOf(Failure, "no ready endpoint", "nothing starts from zero", "describe pods")},
		"another port": {func(s *snapshot) {
			s.scalers[0].port = "9091"
		}, endpointsOf(Failure, "no port 9091", "keda-add-ons-http-external-scaler.keda:9090")},
		"no port": {func(s *snapshot) {
			s.metadata()["scalerAddress"] = scalerService + ".keda"
			s.scalers[0].port = ""
		}, endpointsOf(Failure, "without its port 9090", "set scalerAddress in the trigger to keda-add-ons-http-external-scaler.keda:9090")},
		"endpoints not to be read": {func(s *snapshot) {
			s.scalers[0].endpointSlices = read[[]endpointSlice]{Err: forbidden("list", "endpointslices.discovery.k8s.io", "keda", "")}
		}, endpointsOf(Warning, "need list on endpointslices.discovery.k8s.io in namespace keda")},
		"another HTTPScaledObject": {func(s *snapshot) {
			s.metadata()["httpScaledObject"] = "dmeo"
		}, trigger(Failure, "HTTPScaledObject dmeo, which does not exist", "correct httpScaledObject")},
		"HTTPScaledObject of another application": {func(s *snapshot) {
			other := s.objects.httpScaledObjects.Value[0]
			other.Name, other.Annotations = "other", nil
			s.objects.httpScaledObjects.Value = append(s.objects.httpScaledObjects.Value, other)
			s.metadata()["httpScaledObject"] = "other"
		}, trigger(Warning, "HTTPScaledObject other, which the Rollout does not name (it names demo)")},
		"no target": {func(s *snapshot) {
			s.httpso().Spec.ScalingMetric = nil
		}, trigger(Failure, "there is no target", "spec.scalingMetric", "edit httpscaledobject demo")},
		"no window": {func(s *snapshot) {
			*window(s) = "1 minute"
		}, trigger(Failure, `window is "1 minute"`, "such as")},
		"too long a window": {func(s *snapshot) {
			*window(s) = "2h"
		}, trigger(Failure, "window is 2h0m0s: set it above 0 and up to 1h0m0s")},
		"unknown metric": {func(s *snapshot) {
			s.metadata()["scalingMetric"] = "rps"
		}, trigger(Failure, `"rps"`, "requestRate")},
		"not wired": {func(s *snapshot) {
			s.httpso().Annotations[marks.NotWired] = "no Ingress"
		}, trigger(Warning, "http.kedify.io/not-wired: no Ingress", "pass no proxy yet")},
		"type that polls": {func(s *snapshot) {
			s.objects.scaledObjects.Value[0].Spec.Triggers[0].Type = "external"
		}, trigger(Warning, "only when it polls", "external-push")},
		"not ready": {func(s *snapshot) {
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "TriggerError", Message: "Triggers defined in ScaledObject are not working correctly"}
		}, ready(Failure, "is not ready, TriggerError: Triggers", "describe scaledobject demo", "logs deploy/keda-operator")},
		"another name of the scaler": {func(s *snapshot) {
			s.metadata()["scalerAddress"] = "keda-add-ons-http-scaler.keda:9090"
			s.scalers = nil
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "ScaledObjectCheckFailed",
				Message: "failed to ensure HPA is correctly created for ScaledObject: no metric specs returned from scalers for ScaledObject shop/demo"}
		}, append([]finding{{"scaledobject-min-replicas", Warning, scaled, nil}},
			ready(Failure, "ScaledObjectCheckFailed: failed to ensure HPA", "describe scaledobject demo", "logs deploy/keda-operator")...)},
		"not known whether ready": {func(s *snapshot) {
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionUnknown, Reason: "PartialTriggerError", Message: "some"}
		}, ready(Warning, "may not be ready, PartialTriggerError: some")},
		"KEDA away": {func(s *snapshot) {
			s.objects.scaledObjects.Value[0].Status.Conditions = nil
		}, ready(Warning, "KEDA has not looked at it yet")},
		"HPA without a figure": {func(s *snapshot) {
			s.conditions()[1] = condition{Type: "HPAActive", Status: corev1.ConditionFalse, Reason: "FailedGetExternalMetric", Message: hpaMessage + "metric:s0-http-shop-demo-requestrate encountered error"}
		}, ready(Warning, "its HPA does not scale, FailedGetExternalMetric: HPA is not", "Events", "describe scaledobject demo", "logs deploy/keda-operator")},
		"HPA that asks for another metric": {func(s *snapshot) {
			s.conditions()[1] = condition{Type: "HPAActive", Status: corev1.ConditionFalse, Reason: "FailedGetExternalMetric", Message: hpaMessage + "no matching metrics found for s0-http-shop-demo-requestrate"}
		}, ready(Warning, "no matching metrics found", `patch scaledobject demo --type=merge -p '{"spec":{"pollingInterval":6}}'`)},
		"in its fallback": {func(s *snapshot) {
			s.conditions()[2].Status = corev1.ConditionTrue
		}, ready(Warning, "spec.fallback")},
		"paused": {func(s *snapshot) {
			s.conditions()[3].Status = corev1.ConditionTrue
		}, ready(Warning, "is paused", "autoscaling.keda.sh/paused-")},
		"kedify-proxy of an old bootstrap": {func(s *snapshot) {
			s.proxies.proxies[0].state.reportsLoad = false
		}, []finding{{"load-reports", Failure, "Pod shop/kedify-proxy-1", []string{"load_stats_config", "interceptor bootstrap"}}}},
	})
}

// Of the trigger of another scaler only what KEDA says is looked at, and kedify-proxies
// that nobody asks for their figures are not.
func TestOtherScalersAreLeftAlone(t *testing.T) {
	for _, address := range []string{"", "cron-scaler.keda:9090", "cron-scaler", "my-keda-add-ons-http-external-scaler.keda:9090"} {
		s := healthyScaled()
		s.metadata()["scalerAddress"] = address
		s.scalers = nil
		s.proxies.proxies[0].state.reportsLoad = false
		said := false
		for _, result := range look(s) {
			if strings.HasPrefix(result.Check, "scaler-") || slices.Contains([]string{"scaledobject-trigger", "load-reports"}, result.Check) {
				t.Errorf("%q: %+v", address, result)
			}
			said = said || result.Check == "scaledobject-ready" && result.Status == OK
		}
		if !said {
			t.Errorf("%q: scaledobject-ready is not made, or not ok", address)
		}
	}
}

// The scaler's Service and endpoints are read where the trigger says that they are.
func TestScalersAreRead(t *testing.T) {
	s := healthyScaled()
	s.metadata()["scalerAddress"] = scalerService + ".scaling:9090"
	a := serve(t, s)
	slice := s.scalers[0].endpointSlices.Value[0]
	a.more = map[string]any{
		"/api/v1/namespaces/scaling/services/" + scalerService:        scalerServiceObject(),
		"/apis/discovery.k8s.io/v1/namespaces/scaling/endpointslices": map[string]any{"items": []endpointSlice{slice}},
	}
	report := runOn(t, a, Options{Namespace: "shop"})
	i := slices.IndexFunc(report.Results, func(r Result) bool { return r.Check == "scaler-endpoints" })
	if i < 0 || report.Results[i].Status != OK || report.Results[i].Object != "Service scaling/"+scalerService {
		t.Errorf("%+v", report.Results)
	}
}
