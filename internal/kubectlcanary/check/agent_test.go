package check

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
)

// healthyAgent is healthyScaled, with what the agent has made of a kedify-http trigger in
// the place of what a person made.
func healthyAgent() snapshot {
	s := healthyScaled()
	from := &s.objects.scaledObjects.Value[0]
	from.UID = "1"
	from.Spec.Triggers[0].Metadata = map[string]string{
		scaledobject.ScalerAddressKey: scalerService + ".keda:9090", scaledobject.TypeKey: scaledobject.KedifyHTTP,
		"hosts": "b.example.com, demo.example.com", "pathPrefixes": "/", "port": "80",
		"scalingMetric": "requestRate", "targetValue": "5", "trafficAutowire": "httproute,ingress",
	}
	o := parse[httpScaledObject](`
metadata:
  name: demo
  namespace: shop
  finalizers: [other/finalizer, http.kedify.io/agent]
  ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: demo, uid: "1", controller: true}]
spec: {hosts: [demo.example.com, b.example.com], pathPrefixes: [/], scaleTargetRef: {service: demo-stable, port: 80, portName: ""}, scalingMetric: null}
`)
	o.Annotations = s.httpso().Annotations
	*s.httpso() = o
	proxy, slice := service(proxyService, "x"), endpoints(proxyService)
	proxy.Spec.Ports[0].Port = marks.ProxyPort
	s.objects.services.Value = append(s.objects.services.Value, proxy)
	s.objects.endpointSlices.Value = append(s.objects.endpointSlices.Value, slice)
	agents := parse[deployment](`
metadata: {name: kedify-agent, namespace: keda}
spec: {replicas: 2, selector: {}, template: {metadata: {}, spec: {containers: []}}}
status: {replicas: 2, availableReplicas: 2}
`)
	configuration := parse[webhookConfiguration](`webhooks: [{clientConfig: {caBundle: YQ==}}]`)
	s.agent = agentSnapshot{
		wanted: true, searched: "in any namespace",
		found:      read[[]deployment]{Value: []deployment{agents}},
		deployment: &agents,
		webhook:    read[*webhookConfiguration]{Value: &configuration},
		ingresses: read[[]ingress]{Value: []ingress{parse[ingress](`
metadata: {name: demo, namespace: shop}
spec: {rules: [{host: demo.example.com, http: {paths: [{path: /, backend: {service: {name: kedify-proxy, port: {number: 8080}}}}]}}]}
`)}},
		now: started,
	}
	return s
}

// backend sets the Service of the Ingress' only path.
func (s *snapshot) backend(service string, port int32) {
	to := &s.agent.ingresses.Value[0].Spec.Rules[0].HTTP.Paths[0].Backend.Service
	to.Name, to.Port.Number = service, port
}

func (s *snapshot) agentSays(kind, message string) {
	s.agent.events = append(s.agent.events, corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "demo"}, Message: message,
		LastTimestamp: metav1.NewTime(started.Add(time.Duration(len(s.agent.events)) * time.Minute))})
}

func TestHealthyAgentHasOnlyTicks(t *testing.T) {
	past := healthyAgent()
	past.agent.ingresses.Value[0].Annotations = map[string]string{marks.LeftAlone: started.Add(-time.Second).Format(time.RFC3339)}
	past.agentSays("ScaledObject", "what is over is no fault")
	past.agent.events[0].Reason = marks.InvalidTrigger
	past.objects.scaledObjects.Value[0].ManagedFields = parse[scaledObject](`
metadata: {managedFields: [{manager: kubectl, operation: Apply, time: "2026-11-21T09:00:01Z", fieldsV1: {"f:spec": {"f:triggers": {}}}}]}
spec: {minReplicaCount: 0, scaleTargetRef: {}, triggers: []}
`).ManagedFields
	wildcard := healthyAgent()
	wildcard.metadata()["hosts"] = "*.example.com"
	wildcard.httpso().Spec.Hosts = []string{"*.example.com"}
	anyHost := healthyAgent()
	anyHost.metadata()["hosts"] = "*"
	anyHost.httpso().Spec.Hosts = []string{"*"}
	for name, s := range map[string]snapshot{"as in the guide": healthyAgent(), "any host": anyHost, "left alone in the past": past, "wildcard": wildcard} {
		t.Run(name, func(t *testing.T) {
			var made []string
			for _, result := range look(s) {
				if result.Status != OK {
					t.Errorf("%+v", result)
				}
				made = append(made, result.Check)
			}
			for _, check := range []string{"agent-ready", "kedify-http-trigger", "httpscaledobject-in-step", "ingress-wired", "scaledobject", "scaledobject-trigger"} {
				if !slices.Contains(made, check) {
					t.Errorf("%s is not made", check)
				}
			}
		})
	}
}

func TestAgentFaults(t *testing.T) {
	const scaled, ingressDemo, agents, webhooks = "ScaledObject shop/demo", "Ingress shop/demo", "Deployment keda/kedify-agent", "MutatingWebhookConfiguration kedify-agent"
	of := func(check string, status Status, at string, says ...string) []finding {
		return []finding{{check, status, at, says}}
	}
	ready := func(at string, says ...string) []finding { return of("agent-ready", Failure, at, says...) }
	unchanged := func(s *snapshot) {
		trigger := &s.objects.scaledObjects.Value[0].Spec.Triggers[0]
		trigger.Type = scaledobject.KedifyHTTP
		delete(trigger.Metadata, scaledobject.TypeKey)
		delete(trigger.Metadata, scaledobject.ScalerAddressKey)
		s.conditions()[0].Status, s.conditions()[0].Reason = corev1.ConditionFalse, "ScaledObjectCheckFailed"
		s.scalers = nil
	}
	none := func(s *snapshot) {
		s.agent.deployment, s.agent.found.Value = nil, nil
		s.agent.webhook = read[*webhookConfiguration]{Err: &readError{Verb: "get", Err: errNotServed}}
	}
	// What follows from a trigger that KEDA does not know.
	refused := []finding{{"scaledobject-min-replicas", Warning, scaled, nil}, {"scaledobject-ready", Failure, scaled, nil}}
	trigger := func(before []finding, says ...string) []finding {
		return slices.Concat(before, []finding{{"kedify-http-trigger", Failure, scaled, says}}, refused)
	}
	kedifys := func(s *snapshot) {
		unchanged(s)
		none(s)
		s.httpso().Finalizers = nil
	}
	notWired := func(why string) func(s *snapshot) {
		return func(s *snapshot) {
			s.httpso().Annotations[marks.NotWired] = why
			s.backend("demo-stable", 80)
		}
	}
	wired := func(at string, says ...string) []finding {
		return []finding{
			{"ingress-wired", Failure, at, append(says, "neither split nor counted")},
			{"scaledobject-trigger", Warning, scaled, []string{"see ingress-wired"}},
		}
	}
	deleted := func(s *snapshot) {
		s.httpso().DeletionTimestamp = &metav1.Time{Time: started}
		s.objects.scaledObjects.Value = nil
		s.scalers = nil
	}
	testFaultsOf(t, healthyAgent, faults{
		"agent scaled to 0": {func(s *snapshot) { s.agent.deployment.Spec.Replicas = new(int32) },
			ready(agents, "scaled to 0", "scale deployment kedify-agent --replicas=2")},
		"agent not ready": {func(s *snapshot) { s.agent.deployment.Status.AvailableReplicas = 0 },
			ready(agents, "no ready pod", "describe pods -l app.kubernetes.io/name=kedify-agent")},
		"agent deleted": {none, append(ready("Deployment kedify-agent", "does not exist in any namespace", "deploy/agent-uninstall"),
			finding{"agent-ready", Failure, webhooks, []string{"does not exist", "apply -k deploy/agent"}})},
		"agent not to be read": {func(s *snapshot) {
			none(s)
			s.agent.found.Err = forbidden("list", "deployments.apps", "keda", "")
			s.agent.webhook.Err = forbidden("get", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", marks.Agent)
		}, append(of("agent-ready", Warning, "Deployment kedify-agent", "need list on deployments.apps in namespace keda"),
			finding{"agent-ready", Warning, webhooks, []string{"need get on mutatingwebhookconfigurations"}})},
		"no caBundle": {func(s *snapshot) {
			unchanged(s)
			s.agent.webhook.Value.Webhooks[0].ClientConfig.CABundle = nil
		}, trigger(ready(webhooks, "has no caBundle", "-n keda logs deploy/kedify-agent"), "still of type kedify-http", "mend what agent-ready finds", "patch scaledobject demo --type=merge -p '{}'")},
		"written while the agent was away": {func(s *snapshot) {
			unchanged(s)
			s.agent.deployment.Status.AvailableReplicas = 0
		}, trigger(ready(agents), "no agent is ready (see agent-ready)")},
		"bad metadata": {func(s *snapshot) {
			unchanged(s)
			s.agentSays("ScaledObject", "hostz: did you mean hosts?")
			s.agentSays("ScaledObject", "port is missing")
			s.agentSays("Ingress", "is of something else")
		}, trigger(nil, "the agent says: port is missing")},
		"neither Kedify nor the agent": {kedifys, trigger(nil, "there is no agent in any namespace", "kubectl apply -k deploy/agent, or write an external-push trigger")},
		"whether there is an agent is not known": {func(s *snapshot) {
			kedifys(s)
			s.agent.found.Err = forbidden("list", "deployments.apps", "keda", "")
		}, trigger(nil, "could not be looked at: need list on deployments.apps")},
		"Kedify's": {func(s *snapshot) {
			kedifys(s)
			s.conditions()[0].Status = corev1.ConditionTrue
			s.backend("demo-stable", 80)
		}, refused[:1]},
		"HTTPScaledObject missing": {func(s *snapshot) {
			s.objects.httpScaledObjects.Value = nil
			s.agentSays("ScaledObject", "port is missing")
		}, append(of("httpscaledobject-exists", Failure, httpso, "the agent says: port is missing"), finding{"scaledobject-trigger", Failure, scaled, nil})},
		"HTTPScaledObject missing, and the Rollout names another": {func(s *snapshot) {
			s.httpso().Name, s.httpso().Finalizers = "web", nil
			s.proxies = proxySnapshot{}
			s.demo().Spec.Strategy.Canary.TrafficRouting.Plugins["kedify/http"] = []byte(`{"httpScaledObjectName": "web"}`)
			s.agentSays("ScaledObject", "port is missing")
		}, append(of("httpscaledobject-in-step", Failure, httpso, "does not exist; the agent says: port is missing"), finding{"scaledobject-trigger", Failure, scaled, nil})},
		"HTTPScaledObject of somebody": {func(s *snapshot) { s.httpso().OwnerReferences, s.httpso().Finalizers = nil, nil },
			of("httpscaledobject-in-step", Warning, httpso, "was not made from ScaledObject demo", "annotate httpscaledobject demo http.kedify.io/adopt=true")},
		"HTTPScaledObject of another ScaledObject": {func(s *snapshot) { s.httpso().OwnerReferences[0].Name = "web" },
			of("httpscaledobject-in-step", Warning, httpso, "was not made from")},
		"key that is not served": {func(s *snapshot) {
			s.agentSays("ScaledObject", "there is no key hostz: did you mean hosts?")
			s.agent.events[0].Reason = marks.InvalidTrigger
		}, of("httpscaledobject-in-step", Failure, httpso, "stays as it was, as the agent does not take the trigger: there is no key hostz", "edit scaledobject demo")},
		"hosts not taken": {func(s *snapshot) {
			s.metadata()["hosts"] = "demo.example.com,c.example.com"
			s.agentSays("ScaledObject", "hosts: …")
		}, of("httpscaledobject-in-step", Failure, httpso, "spec.hosts is b.example.com, demo.example.com", "says c.example.com, demo.example.com", "the agent says: hosts: …")},
		"prefixes not taken, agent away": {func(s *snapshot) {
			s.metadata()["pathPrefixes"] = "/api"
			s.agent.deployment.Status.AvailableReplicas = 0
		}, append(ready(agents), of("httpscaledobject-in-step", Failure, httpso, "spec.pathPrefixes is /, and", "says /api", "no agent is ready")...)},
		"ScaledObject deleted in mid-canary": {deleted,
			of("httpscaledobject-in-step", Warning, httpso, "is being deleted with its ScaledObject", "apply the ScaledObject again")},
		"stuck in deletion": {func(s *snapshot) {
			deleted(s)
			none(s)
		}, append(ready("Deployment kedify-agent"), finding{"agent-ready", Failure, webhooks, nil},
			finding{"httpscaledobject-in-step", Failure, httpso, []string{"finalizer http.kedify.io/agent", `patch httpscaledobject demo --type=json -p '[{"op":"remove","path":"/metadata/finalizers/1"}]'`}})},
		"not wired yet": {notWired("2 of 3 kedify-proxies have acknowledged it"), wired(ingressDemo, "not wired, 2 of 3 kedify-proxies", "path demo.example.com/ points at Service demo-stable", "describe httpscaledobject demo")},
		"left alone": {func(s *snapshot) {
			notWired("Ingress demo is left alone")(s)
			s.agent.ingresses.Value[0].Annotations = map[string]string{marks.LeftAlone: started.Add(time.Hour).Format(time.RFC3339)}
		}, wired(ingressDemo, "until 2026-11-21T10:00:00Z", "docs/gitops.md", "annotate ingress demo http.kedify.io/left-alone-until-")},
		"no Ingress": {func(s *snapshot) {
			notWired("no Ingress")(s)
			s.agent.ingresses.Value = nil
		}, wired(httpso, "no Ingress of the namespace is for demo.example.com, b.example.com")},
		"another backend": {func(s *snapshot) {
			notWired("no path")(s)
			s.backend("web", 80)
			s.agentSays("Ingress", "path / has another backend")
		}, wired(ingressDemo, "has Service web as backend, want the stable Service demo-stable", "the agent says: path / has another backend")},
		"another port of kedify-proxy": {func(s *snapshot) { s.backend(proxyService, 80) },
			of("ingress-wired", Failure, ingressDemo, "has Service kedify-proxy as backend")},
		"path that fits in part": {func(s *snapshot) {
			notWired("no path")(s)
			s.metadata()["pathPrefixes"] = "/api/"
			s.httpso().Spec.PathPrefixes = []string{"/api/"}
			s.agent.ingresses.Value[0].Spec.Rules[0].HTTP.Paths[0].Path = "/apis"
		}, wired(ingressDemo, "path demo.example.com/apis admits requests that are not for demo (pathPrefixes /api/)")},
		"written back": {func(s *snapshot) { s.backend("demo-stable", 80) },
			of("ingress-wired", Failure, ingressDemo, "points at Service demo-stable")},
		"one path left": {func(s *snapshot) {
			paths := &s.agent.ingresses.Value[0].Spec.Rules[0].HTTP.Paths
			*paths = append(*paths, (*paths)[0])
			(*paths)[1].Path, (*paths)[1].Backend.Service.Name = "/more", "demo-stable"
		}, of("ingress-wired", Warning, ingressDemo, "path demo.example.com/more points at Service demo-stable")},
		"no kedify-proxy": {func(s *snapshot) {
			notWired("no kedify-proxy is ready")(s)
			s.objects.endpointSlices.Value = s.objects.endpointSlices.Value[:2]
		}, wired("Service shop/kedify-proxy", "has no ready kedify-proxy", "describe deployment kedify-proxy")},
		"Ingresses not to be read": {func(s *snapshot) {
			s.agent.ingresses = read[[]ingress]{Err: forbidden("list", "ingresses.networking.k8s.io", "shop", "")}
		}, of("ingress-wired", Warning, httpso, "need list on ingresses.networking.k8s.io")},
		"autowire not asked for": {func(s *snapshot) {
			s.metadata()["trafficAutowire"] = "false"
			s.backend("demo-stable", 80)
		}, nil},
	})
}

// The agent is looked for where there may be something for it to do.
func TestAgentIsRead(t *testing.T) {
	s := healthyAgent()
	a := serve(t, s)
	a.agents = s.agent.found.Value
	a.more = map[string]any{
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kedify-agent": s.agent.webhook.Value,
		"/apis/networking.k8s.io/v1/namespaces/shop/ingresses":                             map[string]any{"items": s.agent.ingresses.Value},
	}
	report := runOn(t, a, Options{Namespace: "shop"})
	for _, check := range []string{"agent-ready", "httpscaledobject-in-step", "ingress-wired", "kedify-http-trigger"} {
		if i := slices.IndexFunc(report.Results, func(r Result) bool { return r.Check == check }); i < 0 || report.Results[i].Status != OK {
			t.Errorf("%s is not made, or not ok: %+v", check, report.Results)
		}
	}
	settled := healthyScaled()
	a = serve(t, settled)
	runOn(t, a, Options{Namespace: "shop"})
	if slices.ContainsFunc(a.asked, func(path string) bool { return path == "GET /apis/networking.k8s.io/v1/namespaces/shop/ingresses" }) {
		t.Error("Ingresses are read without a trigger that is the agent's")
	}
}
