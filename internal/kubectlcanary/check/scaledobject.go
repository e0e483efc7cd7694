package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/trigger"
)

// scalerService is the Service of deploy/scaler, as triggers name it.
const scalerService = "keda-add-ons-http-external-scaler"

// changedByAgent tells whether the agent's webhook has changed a trigger of it.
func (o scaledObject) changedByAgent() bool {
	return slices.ContainsFunc(o.Spec.Triggers, func(t scaledobject.Trigger) bool { return t.IsKedifyHTTP() && t.Type != scaledobject.KedifyHTTP })
}

// scalerTriggers returns the triggers that ask this project's scaler.
func (o scaledObject) scalerTriggers() []scaledobject.Trigger {
	var triggers []scaledobject.Trigger
	for _, t := range o.Spec.Triggers {
		address := strings.TrimPrefix(t.Metadata[scaledobject.ScalerAddressKey], "dns:///")
		if name, _, _ := strings.Cut(address, "."); name == scalerService || strings.HasPrefix(address, scalerService+":") {
			triggers = append(triggers, t)
		}
	}
	return triggers
}

func (o scaledObject) edit() string {
	return fmt.Sprintf("kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)
}

// checkMinReplicas: KEDA does not take all pods away where nothing starts them again.
func checkMinReplicas(r subject) []Result {
	if err := r.objects.scaledObjects.Err; err != nil && !err.kindMissing() {
		return []Result{couldNotLook(object("Rollout", r.ro.Namespace, r.ro.Name), err)}
	}
	var results []Result
	for _, o := range r.objects.scaledObjectsOf(r.ro.Name) {
		at := object("ScaledObject", o.Namespace, o.Name)
		switch least := o.minReplicas(); {
		case least > 0:
			results = append(results, ok(at, fmt.Sprintf("minReplicaCount is %d", least)))
		case len(o.scalerTriggers()) > 0:
			results = append(results, ok(at, "minReplicaCount is 0: interceptors hold the requests for a Rollout without pods, which starts it"))
		default:
			results = append(results, warning(at, "minReplicaCount is 0: KEDA can take all pods away, also those of both sides in the middle of a canary", "set minReplicaCount to 1 or more: "+o.edit()))
		}
	}
	return results
}

// checkScalerTriggers: each trigger of the scaler can be answered.
func checkScalerTriggers(r subject) []Result {
	var results []Result
	for _, o := range r.objects.scaledObjectsOf(r.ro.Name) {
		for _, t := range o.scalerTriggers() {
			results = append(results, r.checkScalerTrigger(o, t))
		}
	}
	return results
}

func (r subject) checkScalerTrigger(o scaledObject, t scaledobject.Trigger) Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	if err := r.objects.httpScaledObjects.Err; err != nil {
		return couldNotLook(at, err)
	}
	name := trigger.Object(o.Namespace, o.Name, t.Metadata).Name
	scaled := r.objects.httpScaledObject(name)
	if scaled == nil {
		return failure(at, fmt.Sprintf("its %s trigger is for HTTPScaledObject %s, which does not exist", t.Type, name), "create it, or correct httpScaledObject in the trigger: "+o.edit())
	}
	whole := &httpv1alpha1.HTTPScaledObject{ObjectMeta: scaled.ObjectMeta}
	whole.Spec.ScalingMetric = scaled.Spec.ScalingMetric
	if _, err := trigger.Parse(t.Metadata, whole); err != nil {
		return failure(at, fmt.Sprintf("its %s trigger has no figure: %v", t.Type, err), fmt.Sprintf("%s; kubectl -n %s edit httpscaledobject %s", o.edit(), o.Namespace, name))
	}
	switch {
	case t.Type != scaledobject.ExternalPush:
		return warning(at, fmt.Sprintf("its trigger is of type %s: KEDA notices the first request only when it polls", t.Type), "set its type to external-push: "+o.edit())
	case !slices.Contains(r.kedify.Names(), name):
		return warning(at, fmt.Sprintf("scales the Rollout by the requests of HTTPScaledObject %s, which the Rollout does not name (it names %s)", name, strings.Join(r.kedify.Names(), ", ")),
			"correct httpScaledObject in the trigger: "+o.edit())
	}
	return ok(at, "scales by the requests of HTTPScaledObject "+name)
}

// checkScaledObjectReady: what KEDA says of the Rollout's ScaledObjects, in its own words.
func checkScaledObjectReady(r subject) []Result {
	var results []Result
	for _, o := range r.objects.scaledObjectsOf(r.ro.Name) {
		results = append(results, o.checkConditions())
	}
	return results
}

func (o scaledObject) checkConditions() Result {
	at := object("ScaledObject", o.Namespace, o.Name)
	// What a scaler answers is in no condition, and some of it only in the log.
	look := fmt.Sprintf("kubectl -n %s describe scaledobject %s; kubectl -n keda logs deploy/keda-operator | grep %s", o.Namespace, o.Name, o.Name)
	conditions := map[string]condition{}
	for _, c := range o.Status.Conditions {
		conditions[c.Type] = c
	}
	ready, active := conditions["Ready"], conditions["HPAActive"]
	switch {
	case ready.Status == corev1.ConditionFalse && slices.ContainsFunc(o.Spec.Triggers, func(t scaledobject.Trigger) bool { return t.Type == scaledobject.KedifyHTTP }):
		return failure(at, fmt.Sprintf("is not ready, %s: %s; its trigger is of type kedify-http, which KEDA alone does not know", ready.Reason, ready.Message),
			"install the agent, or mend what agent-ready finds: kubectl apply -k deploy/agent; "+look)
	case ready.Status == corev1.ConditionFalse:
		return failure(at, fmt.Sprintf("is not ready, %s: %s", ready.Reason, ready.Message), look)
	case ready.Status != corev1.ConditionTrue:
		return warning(at, "KEDA does not say whether it is ready"+because(ready.Message), "see whether KEDA runs: kubectl -n keda get pods; "+look)
	case active.Status == corev1.ConditionFalse && strings.Contains(active.Message, "no matching metrics found"):
		// No error, and nothing in Events or log: the scaler has another metric now.
		return warning(at, "its HPA does not scale, "+active.Message, fmt.Sprintf(`KEDA has to read the trigger's metric again; change the ScaledObject's spec, such as: kubectl -n %s patch scaledobject %s --type=merge -p '{"spec":{"pollingInterval":6}}'`, o.Namespace, o.Name))
	case active.Status == corev1.ConditionFalse:
		return warning(at, "its HPA does not scale, "+active.Message, look)
	}
	return ok(at, "is ready")
}

// checkWired: requests pass a proxy, as far as the agent sees to that.
func checkWired(_ subject, o httpScaledObject) []Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if why, notWired := o.Annotations[marks.NotWired]; notWired {
		return []Result{failure(at, "its requests pass no proxy, and are neither split nor counted: "+cmp.Or(why, "nobody has pointed an Ingress at one yet"),
			fmt.Sprintf("kubectl -n %s describe httpscaledobject %s; kubectl -n %s describe ingress; whoever has set the annotation %s takes it off then", o.Namespace, o.Name, o.Namespace, marks.NotWired))}
	}
	if !o.isAgents() {
		return nil // nobody but the user sees to it
	}
	return []Result{ok(at, "the agent has nothing against it")}
}
