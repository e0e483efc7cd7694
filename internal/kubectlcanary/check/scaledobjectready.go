package check

import (
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// checkScaledObjectReady: what KEDA says of the Rollout's ScaledObjects, whatever their
// scalers: one with a mistyped scalerAddress has no trigger of this project's.
func checkScaledObjectReady(s snapshot, ro *v1alpha1.Rollout) []Result {
	var results []Result
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		results = append(results, o.checkConditions()...)
	}
	return results
}

func (o scaledObject) checkConditions() []Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	// What a scaler answers is in no condition, and some of it only in the log.
	look := fmt.Sprintf("see the ScaledObject's Events, then KEDA's log: kubectl -n %s describe scaledobject %s; kubectl -n keda logs deploy/%s | grep %s",
		o.Namespace, o.Name, kedaOperator, o.Name)
	said := func(kind string) (condition, string) {
		for _, c := range o.Status.Conditions {
			if c.Type == kind {
				return c, c.Reason + ": " + c.Message
			}
		}
		return condition{}, ""
	}
	var results []Result
	ready, why := said("Ready")
	switch ready.Status {
	case corev1.ConditionFalse:
		results = append(results, failure(at, "is not ready, "+why, look))
	case corev1.ConditionUnknown:
		results = append(results, warning(at, "may not be ready, "+why, look))
	case "":
		if o.needsWebhook() {
			return nil // keda-access looks for KEDA
		}
		results = append(results, warning(at, "KEDA has not looked at it yet", "see whether KEDA runs: kubectl -n keda get pods"))
	}
	if active, why := said("HPAActive"); active.Status == corev1.ConditionFalse {
		remedy := look
		if strings.Contains(active.Message, "no matching metrics found") {
			// No error, and nothing in Events or log: the scaler has another metric now.
			remedy = fmt.Sprintf(`KEDA has to read the trigger's metric again; change the ScaledObject's spec, such as: kubectl -n %s patch scaledobject %s --type=merge -p '{"spec":{"pollingInterval":6}}'`,
				o.Namespace, o.Name)
		}
		results = append(results, warning(at, "its HPA does not scale, "+why, remedy))
	}
	if fallback, _ := said("Fallback"); fallback.Status == corev1.ConditionTrue {
		results = append(results, warning(at, "its figure is unknown, and spec.fallback sets the pods", look))
	}
	if paused, _ := said("Paused"); paused.Status == corev1.ConditionTrue {
		results = append(results, warning(at, "is paused by an annotation: KEDA does not scale the Rollout",
			fmt.Sprintf("kubectl -n %s annotate scaledobject %s autoscaling.keda.sh/paused- autoscaling.keda.sh/paused-replicas-", o.Namespace, o.Name)))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "is ready"))
	}
	return results
}
