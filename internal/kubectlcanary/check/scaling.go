package check

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// checkTriggers: KEDA leaves the choice of Service to the Rollout.
func checkTriggers(s snapshot, ro *v1alpha1.Rollout, _ kedify.Config) []Result {
	if err := s.objects.scaledObjects.Err; err != nil {
		if err.kindMissing() {
			return nil // no KEDA, so nothing that it could do wrong
		}
		return []Result{couldNotLook(object("Rollout", ro.Namespace, ro.Name), err)}
	}
	var results []Result
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		results = append(results, checkTrigger(ro, o)...)
	}
	return results
}

// checkMinReplicas: KEDA does not scale the Rollout so low that a side of a split has
// no pods.
func checkMinReplicas(s snapshot, ro *v1alpha1.Rollout, _ kedify.Config) []Result {
	var results []Result
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		results = append(results, checkMinReplicasOf(ro, o))
	}
	return results
}

func checkTrigger(ro *v1alpha1.Rollout, o scaledObject) []Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	triggers := o.kedifyTriggers()
	if len(triggers) == 0 {
		return nil
	}
	for _, metadata := range triggers {
		if service := metadata["service"]; service != "" {
			stable, _ := rolloutspec.Services(ro)
			return []Result{warning(at,
				fmt.Sprintf("its kedify-http trigger sets service: %s; for a Rollout its stable Service (%s) is taken, and a fixed name gets out of step with it", service, stable),
				fmt.Sprintf("remove service from the trigger's metadata: kubectl -n %s edit scaledobject %s", o.Namespace, o.Name))}
		}
	}
	return []Result{ok(at, "leaves the Service to the Rollout")}
}

func checkMinReplicasOf(ro *v1alpha1.Rollout, o scaledObject) Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	least := o.minReplicas()
	edit := fmt.Sprintf("kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)
	switch {
	case least == 0 && len(o.scalerTriggers()) > 0:
		return ok(at, "minReplicaCount is 0: interceptors hold the requests for a Rollout without pods, which starts it")
	case least == 0:
		return warning(at, "minReplicaCount is 0: KEDA can scale the stable side to no pods in the middle of a canary", "set minReplicaCount to the Rollout's spec.replicas: "+edit)
	}
	replicas, known := authoredReplicas(ro)
	if known && least < replicas {
		return warning(at, fmt.Sprintf("minReplicaCount %d is below the Rollout's spec.replicas %d: at high canary weights KEDA can leave stable without a ready pod", least, replicas),
			fmt.Sprintf("set minReplicaCount to %d: %s", replicas, edit))
	}
	return ok(at, fmt.Sprintf("minReplicaCount is %d", least))
}

// authoredReplicas returns the spec.replicas that a person wrote. KEDA's HPA
// overwrites the field through the scale subresource under load; then only the
// last applied manifest tells, if there is one.
func authoredReplicas(ro *v1alpha1.Rollout) (int32, bool) {
	if applied := ro.Annotations[corev1.LastAppliedConfigAnnotation]; applied != "" {
		var manifest struct {
			Spec struct {
				Replicas *int32 `json:"replicas"`
			} `json:"spec"`
		}
		if err := json.Unmarshal([]byte(applied), &manifest); err == nil && manifest.Spec.Replicas != nil {
			return *manifest.Spec.Replicas, true
		}
	}
	for _, entry := range ro.ManagedFields {
		if entry.Subresource == "scale" && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.Raw), `"f:replicas"`) {
			return 0, false
		}
	}
	if ro.Spec.Replicas == nil {
		return 1, true
	}
	return *ro.Spec.Replicas, true
}

// kedaOperator is KEDA's operator in its own manifests and chart.
const kedaOperator = "keda-operator"

func chooseKEDA(candidates []deployment) *deployment {
	for i := range candidates {
		if candidates[i].Name == kedaOperator {
			return &candidates[i]
		}
	}
	if len(candidates) > 0 {
		return &candidates[0]
	}
	return nil
}

// checkKEDAAccess: keda-operator may read the Rollouts whose stable Service the
// kedify-http scaler looks up.
func checkKEDAAccess(s snapshot) []Result {
	if !s.keda.wanted {
		return nil
	}
	if s.keda.deployment == nil {
		if s.keda.found.Err != nil && !s.keda.found.Err.notFound() {
			return []Result{couldNotLook("Deployment "+kedaOperator, s.keda.found.Err)}
		}
		return []Result{warning("Deployment "+kedaOperator, "there is a ScaledObject, but KEDA's operator was not found", "install KEDA, or look at its access yourself: kubectl auth can-i get rollouts.argoproj.io -n "+s.namespace+" --as system:serviceaccount:keda:keda-operator")}
	}
	namespace, name := serviceAccountOf(s.keda.deployment)
	at := object("ServiceAccount", namespace, name)
	var results []Result
	for _, a := range s.keda.access {
		switch {
		case a.allowed.Err != nil:
			result := couldNotLook(at, a.allowed.Err)
			if a.allowed.Err.forbidden() {
				result.Remedy = "ask somebody who may impersonate it: " + canIAs(a, namespace, name)
			}
			results = append(results, result)
		case !a.allowed.Value:
			results = append(results, failure(at, "may not "+accessText([]access{a})+": the scaler cannot find the stable Service",
				`add {apiGroup: "argoproj.io", kind: rollouts} to rbac.scaledRefKinds of KEDA's chart, or leave that at its default`))
		default:
			results = append(results, ok(at, "may "+accessText([]access{a})))
		}
	}
	return results
}
