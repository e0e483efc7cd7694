package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
)

// agentSnapshot is the agent, read only where it has made something.
type agentSnapshot struct {
	wanted  bool
	found   read[[]deployment]
	webhook read[webhookConfiguration]
}

// isAgents tells whether the agent has made an HTTPScaledObject.
func (o httpScaledObject) isAgents() bool { return slices.Contains(o.Finalizers, marks.Finalizer) }

// gatherAgent reads the agent where it has changed a trigger that scales a Rollout that is
// checked, or where an HTTPScaledObject is its own.
func gatherAgent(ctx context.Context, c *cluster, s snapshot) agentSnapshot {
	a := agentSnapshot{wanted: slices.ContainsFunc(s.objects.httpScaledObjects.Value, httpScaledObject.isAgents)}
	for _, ro := range rolloutsToCheck(s) {
		a.wanted = a.wanted || slices.ContainsFunc(s.objects.scaledObjectsOf(ro.Name), scaledObject.changedByAgent)
	}
	if !a.wanted {
		return a
	}
	a.found = list[deployment](ctx, c, target{group: "apps", version: "v1", resource: "deployments", query: map[string]string{"labelSelector": nameLabel + "=" + marks.Agent}})
	a.webhook = get[webhookConfiguration](ctx, c, target{group: "admissionregistration.k8s.io", version: "v1", resource: "mutatingwebhookconfigurations", name: marks.Agent})
	return a
}

// checkAgent: the agent runs, and the API server trusts its webhook. Without either, what it has
// made follows nothing, and nobody says so.
func checkAgent(s snapshot) []Result {
	if !s.agent.wanted {
		return nil
	}
	return []Result{s.agent.checkDeployment(), s.agent.checkWebhook()}
}

func (a agentSnapshot) checkDeployment() Result {
	at := "Deployment " + marks.Agent
	if a.found.Err != nil {
		return couldNotLook(at, a.found.Err)
	}
	for _, d := range a.found.Value {
		if ready := int(d.Status.AvailableReplicas); ready > 0 {
			return ok(object("Deployment", d.Namespace, d.Name), count(ready, "ready pod"))
		}
	}
	return failure(at, "has no ready pod: triggers, HTTPScaledObjects and Ingresses stay as they are, and deletions wait",
		fmt.Sprintf("kubectl describe pods --all-namespaces -l %s=%s; to install it: kubectl apply -k deploy/agent; to be rid of all that it made: kubectl apply -k deploy/agent-uninstall", nameLabel, marks.Agent))
}

func (a agentSnapshot) checkWebhook() Result {
	at := "MutatingWebhookConfiguration " + marks.Agent
	trusted := slices.ContainsFunc(a.webhook.Value.Webhooks, func(w webhook) bool { return len(w.ClientConfig.CABundle) > 0 })
	switch {
	case a.webhook.Err != nil && !a.webhook.Err.notFound():
		return couldNotLook(at, a.webhook.Err)
	case !trusted:
		return failure(at, "does not exist, or has no caBundle: the API server leaves kedify-http triggers as they are, which KEDA does not know",
			"the agent fills it in; see why it does not in its log; to install it: kubectl apply -k deploy/agent")
	}
	return ok(at, "has a caBundle")
}
