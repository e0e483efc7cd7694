package check

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// healthyScaled is healthy, with the scaler of this project in the place of Kedify's.
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
	s.withProxies()
	return s
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
		s.objects.endpointSlices.Value, s.proxies = nil, proxySnapshot{}
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
			for _, check := range []string{"scaledobject-trigger", "scaledobject-ready", "scaledobject-min-replicas", "backends-ready"} {
				if !slices.Contains(made, check) {
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
	const scaled = "ScaledObject shop/demo"
	trigger := func(status Status, says ...string) []finding {
		return []finding{{"scaledobject-trigger", status, scaled, says}}
	}
	ready := func(status Status, says ...string) []finding {
		return []finding{{"scaledobject-ready", status, scaled, says}}
	}
	window := func(s *snapshot) *string { return s.httpso().Spec.ScalingMetric.RequestRate.Window }
	testFaultsOf(t, healthyScaled, faults{
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
		"type that polls": {func(s *snapshot) {
			s.objects.scaledObjects.Value[0].Spec.Triggers[0].Type = "external"
		}, trigger(Warning, "only when it polls", "external-push")},
		"not ready": {func(s *snapshot) {
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "TriggerError", Message: "Triggers defined in ScaledObject are not working correctly"}
		}, ready(Failure, "is not ready, TriggerError: Triggers", "describe scaledobject demo", "logs deploy/keda-operator")},
		"another name of the scaler": {func(s *snapshot) {
			s.metadata()["scalerAddress"] = "keda-add-ons-http-scaler.keda:9090"
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "ScaledObjectCheckFailed",
				Message: "failed to ensure HPA is correctly created for ScaledObject: no metric specs returned from scalers for ScaledObject shop/demo"}
		}, append([]finding{{"scaledobject-min-replicas", Warning, scaled, nil}},
			ready(Failure, "ScaledObjectCheckFailed: failed to ensure HPA", "describe scaledobject demo", "logs deploy/keda-operator")...)},
		"not known whether ready": {func(s *snapshot) {
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionUnknown, Reason: "PartialTriggerError", Message: "some"}
		}, ready(Warning, "KEDA does not say whether it is ready: some")},
		"KEDA away": {func(s *snapshot) {
			s.objects.scaledObjects.Value[0].Status.Conditions = nil
		}, ready(Warning, "KEDA does not say whether it is ready", "kubectl -n keda get pods")},
		"HPA without a figure": {func(s *snapshot) {
			s.conditions()[1] = condition{Type: "HPAActive", Status: corev1.ConditionFalse, Reason: "FailedGetExternalMetric", Message: hpaMessage + "metric:s0-http-shop-demo-requestrate encountered error"}
		}, ready(Warning, "its HPA does not scale, HPA is not", "describe scaledobject demo", "logs deploy/keda-operator")},
		"HPA that asks for another metric": {func(s *snapshot) {
			s.conditions()[1] = condition{Type: "HPAActive", Status: corev1.ConditionFalse, Reason: "FailedGetExternalMetric", Message: hpaMessage + "no matching metrics found for s0-http-shop-demo-requestrate"}
		}, ready(Warning, "no matching metrics found", `patch scaledobject demo --type=merge -p '{"spec":{"pollingInterval":6}}'`)},
		"a type that KEDA does not know": {func(s *snapshot) {
			s.objects.scaledObjects.Value[0].Spec.Triggers[0].Type = scaledobject.KedifyHTTP
			s.metadata()["scalerAddress"] = ""
			s.conditions()[0] = condition{Type: "Ready", Status: corev1.ConditionFalse, Reason: "ScaledObjectCheckFailed", Message: "no scaler found for type: kedify-http"}
		}, append([]finding{{"scaledobject-min-replicas", Warning, scaled, []string{"minReplicaCount is 0"}}},
			ready(Failure, "no scaler found for type: kedify-http", "install the agent", "agent-ready", "deploy/agent")...)},
	})
}

// Of the trigger of another scaler only what KEDA says is looked at.
func TestOtherScalersAreLeftAlone(t *testing.T) {
	for _, address := range []string{"", "cron-scaler.keda:9090", "cron-scaler", "my-keda-add-ons-http-external-scaler.keda:9090"} {
		s := healthyScaled()
		s.metadata()["scalerAddress"] = address
		said := false
		for _, result := range look(s) {
			if result.Check == "scaledobject-trigger" {
				t.Errorf("%q: %+v", address, result)
			}
			said = said || result.Check == "scaledobject-ready" && result.Status == OK
		}
		if !said {
			t.Errorf("%q: scaledobject-ready is not made, or not ok", address)
		}
	}
}
