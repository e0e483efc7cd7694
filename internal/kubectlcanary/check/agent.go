package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// installAgent says how to get the agent.
const installAgent = "install the agent: kubectl apply -k deploy/agent"

// agentSnapshot is the agent, and what it has said; read only where there may be something
// for it to do.
type agentSnapshot struct {
	wanted bool
	// found is the Deployments that look like the agent; its error is that of the search.
	found      read[[]deployment]
	searched   string
	deployment *deployment
	webhook    read[*webhookConfiguration]
	ingresses  read[[]ingress]
	// events are the agent's Warnings in the namespace. They only explain what checks find,
	// so that not being allowed to read them is no finding.
	events []corev1.Event
	// now is when all of it was read.
	now time.Time
}

// gatherAgent reads the agent where a kedify-http trigger scales a Rollout that is checked,
// or where an HTTPScaledObject is the agent's.
func gatherAgent(ctx context.Context, c *cluster, s snapshot) agentSnapshot {
	var a agentSnapshot
	for _, ro := range rolloutsToCheck(s) {
		a.wanted = a.wanted || slices.ContainsFunc(s.objects.scaledObjectsOf(ro.Name), func(o scaledObject) bool { return len(o.kedifyTriggers()) > 0 })
	}
	a.wanted = a.wanted || slices.ContainsFunc(s.objects.httpScaledObjects.Value, httpScaledObject.hasAgentsFinalizer)
	if !a.wanted {
		return a
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		a.found, a.searched = findDeployments(ctx, c, nil, []string{defaultInterceptorNamespace}, []string{nameLabel + "=" + marks.Agent},
			func(d deployment) bool { return d.Name == marks.Agent })
		if len(a.found.Value) > 0 {
			a.deployment = &a.found.Value[0]
		}
	})
	wg.Go(func() {
		answer := get[webhookConfiguration](ctx, c, target{group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations", name: marks.Agent})
		if a.webhook.Err = answer.Err; answer.Err == nil {
			a.webhook.Value = &answer.Value
		}
	})
	wg.Go(func() {
		a.ingresses = list[ingress](ctx, c, target{group: "networking.k8s.io", version: "v1", resource: "ingresses", namespace: s.namespace})
	})
	wg.Go(func() {
		events := target{version: "v1", resource: "events", namespace: s.namespace}
		events.query = map[string]string{"fieldSelector": "source=" + marks.Agent + ",type=" + corev1.EventTypeWarning}
		a.events = list[corev1.Event](ctx, c, events).Value
	})
	wg.Wait()
	a.now = time.Now()
	return a
}

// installed tells whether the agent, or a part of it, is in the cluster, as far as that
// could be read.
func (a agentSnapshot) installed() bool { return a.deployment != nil || a.webhook.Value != nil }

// serves tells whether a ScaledObject is the agent's to serve, and not Kedify's.
func (a agentSnapshot) serves(o scaledObject) bool {
	return a.wanted && len(o.kedifyTriggers()) > 0 && (a.installed() || !o.needsWebhook())
}

// said returns the last Warning of the agent about an object, to be appended to a message.
func (a agentSnapshot) said(kind, name string) string {
	if last := a.last(kind, name, ""); last.Message != "" {
		return "; the agent says: " + last.Message
	}
	return ""
}

// last returns the last Warning of the agent about an object, with a reason unless that is
// empty.
func (a agentSnapshot) last(kind, name, reason string) corev1.Event {
	var last corev1.Event
	for _, event := range a.events {
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name && (reason == "" || event.Reason == reason) && !event.LastTimestamp.Before(&last.LastTimestamp) {
			last = event
		}
	}
	return last
}

// refusal returns why the agent does not take a trigger as it is; "" if it does. An Event
// from before the last change of the ScaledObject is about what it was.
func (a agentSnapshot) refusal(o scaledObject) string {
	last := a.last(scaledobject.Kind, o.Name, marks.InvalidTrigger)
	if last.LastTimestamp.Time.Before(fieldChanged(o.ObjectMeta, "spec")) {
		return ""
	}
	return last.Message
}

// kedifyTriggers returns the metadata of the kedify-http triggers, as users wrote them or as
// the agent's webhook has changed them.
func (o scaledObject) kedifyTriggers() []map[string]string {
	var triggers []map[string]string
	for _, t := range o.Spec.Triggers {
		if t.IsKedifyHTTP() {
			triggers = append(triggers, t.Metadata)
		}
	}
	return triggers
}

// needsWebhook tells whether a trigger is still of the type that KEDA does not know.
func (o scaledObject) needsWebhook() bool {
	return slices.ContainsFunc(o.Spec.Triggers, func(t scaledobject.Trigger) bool { return t.Type == scaledobject.KedifyHTTP })
}

// checkAgent: the agent runs, and the API server trusts its webhook.
func checkAgent(s snapshot) []Result {
	left := slices.ContainsFunc(s.objects.scaledObjects.Value, func(o scaledObject) bool { return len(o.kedifyTriggers()) > 0 && !o.needsWebhook() }) ||
		slices.ContainsFunc(s.objects.httpScaledObjects.Value, httpScaledObject.hasAgentsFinalizer)
	if !s.agent.wanted || !s.agent.installed() && !left {
		return nil // Kedify's own, or none: kedify-http-trigger says so
	}
	return []Result{s.agent.checkDeployment(), s.agent.checkWebhook()}
}

func (a agentSnapshot) checkDeployment() Result {
	at := "Deployment " + marks.Agent
	if a.deployment == nil {
		if a.found.Err != nil && !a.found.Err.notFound() {
			return couldNotLook(at, a.found.Err)
		}
		return failure(at, "does not exist "+a.searched+", and has left what it made: HTTPScaledObjects and Ingresses follow nothing, and deletions wait", installAgent+"; to be rid of all that it made: kubectl apply -k deploy/agent-uninstall")
	}
	at = object("Deployment", a.deployment.Namespace, a.deployment.Name)
	switch ready := int(a.deployment.Status.AvailableReplicas); {
	case a.deployment.Spec.Replicas != nil && *a.deployment.Spec.Replicas == 0:
		return failure(at, "is scaled to 0 replicas: triggers, HTTPScaledObjects and Ingresses stay as they are, and deletions wait",
			fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", a.deployment.Namespace, marks.Agent))
	case ready == 0:
		return failure(at, "has no ready pod"+because(a.deployment.Status.podsRefused())+": triggers, HTTPScaledObjects and Ingresses stay as they are, and deletions wait",
			fmt.Sprintf("kubectl -n %s describe pods -l %s=%s", a.deployment.Namespace, nameLabel, marks.Agent))
	default:
		return ok(at, count(ready, "ready pod"))
	}
}

func (a agentSnapshot) checkWebhook() Result {
	at := "MutatingWebhookConfiguration " + marks.Agent
	const left = "the API server leaves kedify-http triggers as they are, which KEDA does not know"
	switch {
	case a.webhook.Err.notFound():
		return failure(at, "does not exist: "+left, installAgent)
	case a.webhook.Err != nil:
		return couldNotLook(at, a.webhook.Err)
	case !slices.ContainsFunc(a.webhook.Value.Webhooks, func(w webhook) bool { return len(w.ClientConfig.CABundle) > 0 }):
		namespace := defaultInterceptorNamespace
		if a.deployment != nil {
			namespace = a.deployment.Namespace
		}
		return failure(at, "has no caBundle: "+left, fmt.Sprintf("the agent fills it in; see why it does not: kubectl -n %s logs deploy/%s", namespace, marks.Agent))
	}
	return ok(at, "has a caBundle")
}

// away returns why the agent does nothing now; "" if it runs, or if that is not known.
func (a agentSnapshot) away() string {
	if r := a.checkDeployment(); r.Status == Failure {
		return "; no agent is ready (see agent-ready)"
	}
	return ""
}

// checkKedifyTriggers: somebody makes of a kedify-http trigger what KEDA knows.
func checkKedifyTriggers(s snapshot, ro *v1alpha1.Rollout, _ kedify.Config) []Result {
	var results []Result
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		at := object("ScaledObject", o.Namespace, o.Name)
		switch {
		case len(o.kedifyTriggers()) == 0:
		case !o.needsWebhook():
			results = append(results, ok(at, "its kedify-http trigger asks the scaler"))
		case s.agent.installed():
			results = append(results, failure(at, "its trigger is still of type kedify-http, which KEDA does not know: the agent's webhook has not changed it"+s.agent.away()+s.agent.said("ScaledObject", o.Name),
				fmt.Sprintf("mend what agent-ready finds; then the agent changes it, or: kubectl -n %s patch scaledobject %s --type=merge -p '{}'", o.Namespace, o.Name)))
		case o.refused():
			message := "KEDA does not take its trigger of type kedify-http, and there is no agent " + s.agent.searched + " that would change it"
			if err := s.agent.found.Err; err != nil && err.forbidden() {
				message = "KEDA does not take its trigger of type kedify-http; whether there is an agent that would change it could not be looked at: " + err.Error()
			}
			results = append(results, failure(at, message, installAgent+", or write an external-push trigger (docs/scaling.md): "+
				fmt.Sprintf("kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)))
		}
	}
	return results
}

// refused tells whether KEDA says that the ScaledObject is not ready.
func (o scaledObject) refused() bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c condition) bool { return c.Type == "Ready" && c.Status == corev1.ConditionFalse })
}

// words returns the items of a comma-separated value of a trigger's metadata.
func words(text string) []string {
	var found []string
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			found = append(found, item)
		}
	}
	return found
}
