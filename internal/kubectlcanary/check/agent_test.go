package check

import (
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// healthyAgent is healthyScaled, with what the agent has made of a kedify-http trigger in
// the place of what a person made.
func healthyAgent() snapshot {
	s := healthyScaled()
	s.objects.scaledObjects.Value[0].Spec.Triggers[0].Metadata = map[string]string{
		scaledobject.ScalerAddressKey: scalerService + ".keda:9090", scaledobject.TypeKey: scaledobject.KedifyHTTP,
		"hosts": "demo.example.com", "port": "80", "scalingMetric": "requestRate", "targetValue": "5", "trafficAutowire": "httproute,ingress",
	}
	s.httpso().Finalizers = []string{"other/finalizer", marks.Finalizer}
	s.agent = agentSnapshot{
		wanted: true,
		found: read[[]deployment]{Value: []deployment{parse[deployment](`
metadata: {name: kedify-agent, namespace: keda}
spec: {selector: {}, template: {metadata: {}, spec: {containers: []}}}
status: {replicas: 2, availableReplicas: 2}
`)}},
		webhook: read[webhookConfiguration]{Value: parse[webhookConfiguration](`webhooks: [{clientConfig: {caBundle: YQ==}}]`)},
	}
	return s
}

func TestAgentFaults(t *testing.T) {
	const agents, webhooks = "Deployment kedify-agent", "MutatingWebhookConfiguration kedify-agent"
	of := func(check string, status Status, at string, says ...string) []finding {
		return []finding{{check, status, at, says}}
	}
	testFaultsOf(t, healthyAgent, faults{
		"nothing": {func(*snapshot) {}, nil},
		"agent not ready": {func(s *snapshot) { s.agent.found.Value[0].Status.AvailableReplicas = 0 },
			of("agent-ready", Failure, agents, "has no ready pod", "describe pods --all-namespaces -l app.kubernetes.io/name=kedify-agent")},
		"agent gone": {func(s *snapshot) { s.agent.found.Value = nil },
			of("agent-ready", Failure, agents, "deletions wait", "kubectl apply -k deploy/agent", "deploy/agent-uninstall")},
		"agent not to be read": {func(s *snapshot) {
			s.agent.found = read[[]deployment]{Err: forbidden("list", "deployments.apps", "", "")}
		}, of("agent-ready", Warning, agents, "need list on deployments.apps", "--all-namespaces")},
		"no webhook": {func(s *snapshot) {
			s.agent.webhook = read[webhookConfiguration]{Err: &readError{Verb: "get", Err: errNotServed}}
		}, of("agent-ready", Failure, webhooks, "does not exist, or has no caBundle", "kubectl apply -k deploy/agent")},
		"no caBundle": {func(s *snapshot) { s.agent.webhook.Value.Webhooks[0].ClientConfig.CABundle = nil },
			of("agent-ready", Failure, webhooks, "leaves kedify-http triggers as they are")},
		"webhook not to be read": {func(s *snapshot) {
			s.agent.webhook = read[webhookConfiguration]{Err: forbidden("get", "mutatingwebhookconfigurations", "", "kedify-agent")}
		}, of("agent-ready", Warning, webhooks, "need get on mutatingwebhookconfigurations")},
		"not wired": {func(s *snapshot) {
			s.httpso().Annotations[marks.NotWired] = "2 of 3 kedify-proxies have acknowledged it"
		},
			of("ingress-wired", Failure, httpso, "neither split nor counted: 2 of 3 kedify-proxies", "describe ingress")},
		"not wired, nobody says why": {func(s *snapshot) { s.httpso().Annotations[marks.NotWired] = "" },
			of("ingress-wired", Failure, httpso, "nobody has pointed an Ingress at one yet")},
	})
}

// The agent is looked for where it has made something.
func TestAgentIsRead(t *testing.T) {
	s := healthyAgent()
	a := serve(t, s)
	a.agents = s.agent.found.Value
	const webhook = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kedify-agent"
	a.more = map[string]any{webhook: s.agent.webhook.Value}
	report := runOn(t, a, Options{Namespace: "shop"})
	for _, check := range []string{"agent-ready", "ingress-wired"} {
		if i := slices.IndexFunc(report.Results, func(r Result) bool { return r.Check == check }); i < 0 || report.Results[i].Status != OK {
			t.Errorf("%s is not made, or not ok: %+v", check, report.Results)
		}
	}
	a = serve(t, healthyScaled())
	runOn(t, a, Options{Namespace: "shop"})
	if slices.Contains(a.asked, "GET "+webhook) {
		t.Error("the agent is looked for where it has made nothing")
	}
}
