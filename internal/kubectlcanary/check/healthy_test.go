package check

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

var started = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// parse decodes YAML as the API server's JSON would be.
func parse[T any](text string) T {
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		panic(err)
	}
	return value
}

const sum = "6cd7597788f9ceeee3406695b64022c63ddb77e9b946dd0295bf10969b985814"

const pluginList = `
- name: kedify/http
  location: https://github.com/kedify/argo-rollouts-plugin/releases/download/v0.0.1/rollouts-plugin-kedify-linux-amd64
  sha256: ` + sum + "\n"

const rolloutManifest = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: demo, namespace: shop, generation: 3, creationTimestamp: "2026-11-21T08:00:00Z"}
spec:
  replicas: 2
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec: {containers: [{name: demo, image: "argoproj/rollouts-demo:blue", ports: [{name: http, containerPort: 8080}], resources: {}}]}
  strategy:
    canary:
      stableService: demo-stable
      canaryService: demo-canary
      trafficRouting: {plugins: {kedify/http: {httpScaledObjectName: demo}}}
      steps: [{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {duration: 30s}}]
status:
  observedGeneration: "3"
  phase: Paused
  message: CanaryPauseStep
  currentStepIndex: 1
  stableRS: blue
  currentPodHash: green
  blueGreen: {}
  canary:
    weights:
      canary: {weight: 20, podTemplateHash: green, serviceName: demo-canary}
      stable: {weight: 80, podTemplateHash: blue, serviceName: demo-stable}
      verified: true
`

func service(name, hash string) corev1.Service {
	return parse[corev1.Service](`
metadata: {name: ` + name + `, namespace: shop}
spec:
  selector: {app: demo, rollouts-pod-template-hash: ` + hash + `}
  ports: [{port: 80, targetPort: 8080}]
`)
}

func endpoints(service string) endpointSlice {
	return parse[endpointSlice](`
metadata: {name: ` + service + `-x, namespace: shop, labels: {kubernetes.io/service-name: ` + service + `}}
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.244.1.1], conditions: {ready: true}}, {addresses: [10.244.1.2], conditions: {ready: false}}]
`)
}

func replicaSetOf(hash string, replicas string) replicaSet {
	return parse[replicaSet](`
metadata: {name: demo-` + hash + `, namespace: shop, labels: {app: demo, rollouts-pod-template-hash: ` + hash + `}}
spec: {replicas: ` + replicas + `}
status: {replicas: ` + replicas + `, availableReplicas: ` + replicas + `}
`)
}

// healthy is a cluster in the middle of a canary with nothing wrong.
func healthy() snapshot {
	controllerPod := parse[corev1.Pod](`
metadata: {name: argo-rollouts-1, namespace: argo-rollouts}
spec: {nodeName: node-1, containers: [{name: argo-rollouts, resources: {}}]}
status:
  phase: Running
  conditions: [{type: Ready, status: "True"}]
  containerStatuses: [{name: argo-rollouts, ready: true, restartCount: 0, image: x, imageID: x, state: {running: {startedAt: "2026-11-21T09:00:00Z"}}}]
`)
	controllerDeployment := parse[deployment](`
metadata: {name: argo-rollouts, namespace: argo-rollouts, labels: {app.kubernetes.io/component: rollouts-controller}}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: argo-rollouts}}
  template:
    metadata: {}
    spec:
      serviceAccountName: argo-rollouts
      containers:
      - name: argo-rollouts
        image: quay.io/argoproj/argo-rollouts:v1.10.1
        resources: {}
        securityContext: {readOnlyRootFilesystem: true}
        volumeMounts: [{name: plugin-bin, mountPath: /home/argo-rollouts/plugin-bin}, {name: tmp, mountPath: /tmp}]
`)
	configMap := parse[corev1.ConfigMap](`
metadata:
  name: argo-rollouts-config
  namespace: argo-rollouts
  creationTimestamp: "2026-11-21T08:00:00Z"
  managedFields:
  - {manager: kubectl, operation: Apply, time: "2026-11-21T08:59:00Z", fieldsV1: {"f:data": {"f:trafficRouterPlugins": {}}}}
  - {manager: labeller, operation: Update, time: "2026-11-21T09:30:00Z", fieldsV1: {"f:metadata": {"f:labels": {}}}}
`)
	configMap.Data = map[string]string{trafficRouterPlugins: pluginList}
	node := parse[corev1.Node](`
metadata: {name: node-1}
status: {nodeInfo: {operatingSystem: linux, architecture: amd64, machineID: "", systemUUID: "", bootID: "", kernelVersion: "", osImage: "", containerRuntimeVersion: "", kubeletVersion: "", kubeProxyVersion: ""}}
`)
	httpso := parse[httpScaledObject](`
metadata: {name: demo, namespace: shop}
spec: {scaleTargetRef: {service: demo-stable, port: 80}}
`)
	httpso.Annotations = map[string]string{
		weightedbackends.Annotation: weightedbackends.Format([]weightedbackends.Backend{
			{Service: "demo-stable", Weight: 80}, {Service: "demo-canary", Weight: 20},
		}),
		weightedbackends.OwnerAnnotation: "demo",
		"team":                           "shop",
	}
	return snapshot{
		namespace: "shop",
		controller: controllerSnapshot{
			found:           read[[]deployment]{Value: []deployment{controllerDeployment}},
			searched:        "in any namespace",
			deployment:      &controllerDeployment,
			configNamespace: "argo-rollouts",
			config:          read[*corev1.ConfigMap]{Value: &configMap},
			pods:            read[[]corev1.Pod]{Value: []corev1.Pod{controllerPod}},
			nodes:           map[string]read[corev1.Node]{"node-1": {Value: node}},
		},
		steps:   stepSnapshot{kinds: kinds.All},
		plugins: []pluginSnapshot{{name: kedify.PluginName, list: trafficRouterPlugins, access: allGranted(kedifyNeeds("shop", "", true))}},
		objects: namespaceSnapshot{
			rollouts:          read[[]v1alpha1.Rollout]{Value: []v1alpha1.Rollout{parse[v1alpha1.Rollout](rolloutManifest)}},
			httpScaledObjects: read[[]httpScaledObject]{Value: []httpScaledObject{httpso}},
			scaledObjects: read[[]scaledObject]{Value: []scaledObject{parse[scaledObject](`
metadata: {name: demo, namespace: shop}
spec:
  minReplicaCount: 2
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: demo}
  triggers: [{type: kedify-http, metadata: {hosts: demo.example.com, port: "80"}}]
status: {conditions: [{type: Ready, status: "True", reason: ScaledObjectReady, message: ready for scaling}]}
`)}},
			services:       read[[]corev1.Service]{Value: []corev1.Service{service("demo-stable", "blue"), service("demo-canary", "green")}},
			endpointSlices: read[[]endpointSlice]{Value: []endpointSlice{endpoints("demo-stable"), endpoints("demo-canary")}},
			replicaSets:    read[[]replicaSet]{Value: []replicaSet{replicaSetOf("blue", "2"), replicaSetOf("green", "1")}},
		},
	}
}

func allGranted(list []access) []access {
	for i := range list {
		list[i].allowed.Value = true
	}
	return list
}

// The parts of a snapshot in which most tests make faults.
func (s *snapshot) demo() *v1alpha1.Rollout { return &s.objects.rollouts.Value[0] }

func (s *snapshot) httpso() *httpScaledObject { return &s.objects.httpScaledObjects.Value[0] }

func (s *snapshot) stable() *corev1.Service { return &s.objects.services.Value[0] }

func (s *snapshot) canary() *corev1.Service { return &s.objects.services.Value[1] }

func (s *snapshot) configData() map[string]string { return s.controller.config.Value.Data }

func (s *snapshot) controllerPod() *corev1.Pod { return &s.controller.pods.Value[0] }

// noCanaryEndpoints takes the endpoints of the canary away.
func (s *snapshot) noCanaryEndpoints() {
	s.objects.endpointSlices.Value = s.objects.endpointSlices.Value[:1]
}

// settle ends the canary: everything on blue, no split.
func (s *snapshot) settle() {
	ro := s.demo()
	ro.Status.Phase, ro.Status.Message = v1alpha1.RolloutPhaseHealthy, ""
	ro.Status.CurrentPodHash = "blue"
	steps := int32(4)
	ro.Status.CurrentStepIndex = &steps
	ro.Status.Canary.Weights = &v1alpha1.TrafficWeights{
		Canary: v1alpha1.WeightDestination{PodTemplateHash: "blue", ServiceName: "demo-canary"},
		Stable: v1alpha1.WeightDestination{PodTemplateHash: "blue", ServiceName: "demo-stable", Weight: 100},
	}
	delete(s.httpso().Annotations, weightedbackends.Annotation)
	delete(s.httpso().Annotations, weightedbackends.OwnerAnnotation)
	*s.canary() = service("demo-canary", "blue")
}

func TestHealthyClusterHasOnlyTicks(t *testing.T) {
	settled := healthy()
	settled.settle()
	pingPong := healthy()
	ro := pingPong.demo()
	ro.Spec.Strategy.Canary.StableService, ro.Spec.Strategy.Canary.CanaryService = "", ""
	ro.Spec.Strategy.Canary.PingPong = &v1alpha1.PingPongSpec{PingService: "demo-stable", PongService: "demo-canary"}
	ro.Status.Canary.StablePingPong = v1alpha1.PPPing
	noKEDA := healthy()
	noKEDA.objects.scaledObjects = read[[]scaledObject]{Err: missingKind("scaledobjects.keda.sh")}

	for name, s := range map[string]snapshot{
		"mid-canary": healthy(), "settled": settled, "ping-pong": pingPong, "without KEDA": noKEDA,
	} {
		t.Run(name, func(t *testing.T) {
			report := Report{Results: look(s)}
			for _, result := range report.Results {
				if result.Status != OK || result.Remedy != "" {
					t.Errorf("%+v", result)
				}
			}
			if len(report.Results) < 15 {
				t.Errorf("only %d checks were made: %+v", len(report.Results), report.Results)
			}
		})
	}
}

func TestReportForms(t *testing.T) {
	report := Report{Results: []Result{
		ok("ConfigMap a/b", "fine"),
		failure("HTTPScaledObject shop/demo", "over\n  two lines", "do this"),
	}}
	report.Results[0].Check = "plugin-registered"
	report.Results[1].Check, report.Results[1].Rollout = "annotation", "shop/demo"
	report.addLinks("v1.2.3-rc.1")
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const link = "https://github.com/kedify/argo-rollouts-plugin/blob/v1.2.3-rc.1/docs/how-to/troubleshooting.md#annotation"
	want := `Installation
✓ plugin-registered  ConfigMap a/b  fine

Rollout shop/demo
✗ annotation         HTTPScaledObject shop/demo  over two lines
  → do this
    ` + link + `

1 ✓  0 !  1 ✗
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}

	var encoded strings.Builder
	if err := report.WriteJSON(&encoded); err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal([]byte(encoded.String()), &decoded); err != nil {
		t.Fatal(err)
	}
	results := decoded["results"].([]any)
	second := results[1].(map[string]any)
	if decoded["failed"] != true || second["status"] != "failure" || second["rollout"] != "shop/demo" || second["remedy"] != "do this" || second["link"] != link {
		t.Errorf("got %s", encoded.String())
	}
	if _, found := results[0].(map[string]any)["link"]; found {
		t.Errorf("a result that is ok has a link: %s", encoded.String())
	}
	for _, version := range []string{"dev", "v1.2.3-4-g0123abc", "v1.2.3-dirty", "0123abc"} {
		report.addLinks(version)
		if got := report.Results[1].Link; got != strings.Replace(link, "v1.2.3-rc.1", "main", 1) {
			t.Errorf("%s, which is no release, links to %s", version, got)
		}
	}
	if _, found := results[0].(map[string]any)["rollout"]; found {
		t.Errorf("a result about the installation names a Rollout: %s", encoded.String())
	}

	encoded.Reset()
	if err := (Report{}).WriteJSON(&encoded); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(encoded.String()), ""); got != `{"results":[],"failed":false}` {
		t.Errorf("an empty report is %s", got)
	}
}
