package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

func missingKind(resource string) *readError {
	return &readError{Verb: "list", Resource: resource, Namespace: "shop", Err: apierrors.NewNotFound(schema.GroupResource{}, "")}
}

func forbidden(verb, resource, namespace, name string) *readError {
	return &readError{verb, resource, namespace, name, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("RBAC"))}
}

// finding is a result that is not OK, and the texts that it must contain.
type finding struct {
	check  string
	status Status
	object string
	says   []string
}

const (
	configMap  = "ConfigMap argo-rollouts/argo-rollouts-config"
	controller = "Deployment argo-rollouts/argo-rollouts"
	demo       = "Rollout shop/demo"
	httpso     = "HTTPScaledObject shop/demo"
	restart    = "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts"
)

// testFaults makes each fault in a healthy cluster and compares all findings.
func testFaults(t *testing.T, faults faults) {
	t.Helper()
	testFaultsOf(t, healthy, faults)
}

// testFaultsOf is testFaults in another healthy cluster.
func testFaultsOf(t *testing.T, healthy func() snapshot, faults faults) {
	t.Helper()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			fault.make(&s)
			var got, want []string
			var rest []Result
			for _, result := range look(s) {
				if result.Status != OK {
					got = append(got, fmt.Sprint(result.Check, " ", result.Status, " ", result.Object))
					rest = append(rest, result)
					if result.Message == "" || result.Remedy == "" {
						t.Errorf("no message or no remedy: %+v", result)
					}
				}
			}
			for _, f := range fault.want {
				want = append(want, fmt.Sprint(f.check, " ", f.status, " ", f.object))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("-want +got:\n%s\n%+v", diff, rest)
			}
			for i, f := range fault.want {
				for _, part := range f.says {
					if text := rest[i].Message + " → " + rest[i].Remedy; !strings.Contains(text, part) {
						t.Errorf("%s does not say %q: %s", f.check, part, text)
					}
				}
			}
		})
	}
}

type faults = map[string]struct {
	make func(s *snapshot)
	want []finding
}

func TestRegistrationFaults(t *testing.T) {
	register := func(text string) func(s *snapshot) {
		return func(s *snapshot) { s.configData()[trafficRouterPlugins] = text }
	}
	one := func(says ...string) []finding {
		return []finding{{"plugin-registered", Failure, configMap, append(says, restart)}}
	}
	testFaults(t, faults{
		"no ConfigMap": {func(s *snapshot) {
			s.controller.config = read[*corev1.ConfigMap]{Err: &readError{Verb: "get", Resource: "configmaps", Err: apierrors.NewNotFound(schema.GroupResource{}, "argo-rollouts-config")}}
		}, one("does not exist", "install-<os>-<arch>.yaml")},
		"ConfigMap not to be read": {func(s *snapshot) {
			s.controller.config = read[*corev1.ConfigMap]{Err: forbidden("get", "configmaps", "argo-rollouts", configMapName)}
		}, []finding{{"plugin-registered", Warning, configMap, []string{"could not look: need get on configmaps argo-rollouts-config in namespace argo-rollouts"}}}},
		"nothing registered":   {register(""), one("kedify/http is not registered")},
		"dash for slash":       {register(strings.Replace(pluginList, "kedify/http", "kedify-http", 1)), one(`kedify/http is not registered under data.trafficRouterPlugins; there is "kedify-http"`, "name it kedify/http")},
		"YAML that is no list": {register("name: kedify/http"), one("data.trafficRouterPlugins is not a YAML list")},
		"broken YAML":          {register("- name: [kedify/http"), one("does not start")},
		"under stepPlugins": {func(s *snapshot) {
			s.configData()[stepPlugins] = s.configData()[trafficRouterPlugins]
			delete(s.configData(), trafficRouterPlugins)
		}, one("kedify/http is registered under data.stepPlugins", "move the entry to data.trafficRouterPlugins")},
		"twice": {register(pluginList + pluginList), one("listed 2 times")},
		"broken list of others": {func(s *snapshot) {
			s.configData()[stepPlugins] = "{"
		}, one("data.stepPlugins is not a YAML list")},
		"mistyped key": {register(strings.Replace(pluginList, "sha256:", "sha265:", 1)), []finding{
			{"plugin-registered", Warning, configMap, []string{"sha265"}},
			{"plugin-location", Warning, configMap, []string{"sha256 is not set"}},
		}},
	})
}

func TestLocationFaults(t *testing.T) {
	set := func(location, sha256 string) func(s *snapshot) {
		return func(s *snapshot) {
			s.configData()[trafficRouterPlugins] = fmt.Sprintf("- {name: kedify/http, location: %q, sha256: %q}", location, sha256)
		}
	}
	const url = "https://example.com/rollouts-plugin-kedify-linux-amd64"
	one := func(status Status, says ...string) []finding {
		return []finding{{"plugin-location", status, configMap, append(says, restart)}}
	}
	testFaults(t, faults{
		"no location":                 {set("", sum), one(Failure, `location "" is no URL`)},
		"no URL":                      {set("releases/rollouts-plugin-kedify-linux-amd64", sum), one(Failure, "is no URL")},
		"another scheme":              {set("s3://bucket/rollouts-plugin-kedify-linux-amd64", sum), one(Failure, "http, https or file")},
		"no sha256":                   {set(url, ""), one(Warning, "sha256 is not set")},
		"placeholder":                 {set(url, "<paste from checksums.txt>"), one(Failure, "64 hexadecimal digits", "checksums.txt")},
		"capital sha256":              {set(url, strings.ToUpper(sum)), one(Failure, "in small letters")},
		"the target itself":           {set("file:///home/argo-rollouts/plugin-bin/kedify/http", ""), one(Failure, "truncates", "deploy/local")},
		"the target itself, relative": {set("file://./plugin-bin/kedify/http", ""), one(Failure, "truncates")},
		"file with sha256":            {set("file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify", sum), one(Warning, "does not compare it for file://")},
		"another arch": {set(strings.Replace(url, "amd64", "arm64", 1), sum), []finding{
			{"plugin-platform", Failure, configMap, []string{"linux/arm64", "node node-1 is linux/amd64", "…-linux-amd64", restart}}}},
		"another OS": {set(strings.Replace(url, "linux", "darwin", 1), sum), []finding{
			{"plugin-platform", Failure, configMap, []string{"darwin/amd64"}}}},
		"renamed by a mirror": {set("https://mirror/kedify", sum), nil},
		"node not to be read": {func(s *snapshot) {
			s.controller.nodes["node-1"] = read[corev1.Node]{Err: forbidden("get", "nodes", "", "node-1")}
		}, []finding{{"plugin-platform", Warning, "Node node-1", []string{"need get on nodes node-1"}}}},
	})
}

func TestControllerFaults(t *testing.T) {
	gone := func(s *snapshot) {
		s.controller = controllerSnapshot{configNamespace: "argo-rollouts", searched: "in any namespace", config: s.controller.config}
	}
	crash := func(s *snapshot) {
		p := s.controllerPod()
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses[0] = parse[corev1.ContainerStatus](`
{name: argo-rollouts, ready: false, restartCount: 3, image: x, imageID: x, state: {waiting: {reason: CrashLoopBackOff, message: back-off 40s}}}`)
	}
	runs := func(since time.Duration) func(*snapshot) {
		return func(s *snapshot) {
			s.controller.now = started.Add(since)
			s.controllerPod().Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.NewTime(started.Add(-5 * time.Minute))}
		}
	}
	pod := "Pod argo-rollouts/argo-rollouts-1"
	crashed := []finding{{"controller-found", Failure, pod, []string{"CrashLoopBackOff: back-off 40s", "--previous", `logs deploy/argo-rollouts | grep -i "plugin"`, "plugin-download (--download)"}}}
	testFaults(t, faults{
		"not installed": {gone, []finding{{"controller-found", Failure, "Deployment argo-rollouts", []string{"in any namespace", "--controller-namespace"}}}},
		"not to be searched": {func(s *snapshot) {
			gone(s)
			s.controller.found.Err = forbidden("list", "deployments.apps", "argo-rollouts", "")
		}, []finding{{"controller-found", Warning, "Deployment argo-rollouts", []string{"need list on deployments.apps in namespace argo-rollouts"}}}},
		"no pods": {func(s *snapshot) {
			s.controller.pods.Value = nil
			s.controller.deployment.Status.Conditions = []condition{{Type: "ReplicaFailure", Status: corev1.ConditionTrue, Message: "quota exceeded"}}
		}, []finding{{"controller-found", Failure, controller, []string{"quota exceeded", "scale deploy/argo-rollouts --replicas=1"}}}},
		"crash": {crash, crashed},
		"new pod crashes beside the old one": {func(s *snapshot) {
			old := s.controllerPod().DeepCopy()
			old.Name = "argo-rollouts-0"
			crash(s)
			s.controller.pods.Value = append(s.controller.pods.Value, *old)
		}, crashed},
		"runs for a moment between two failures": {runs(time.Minute), []finding{{"controller-found", Warning, pod, []string{"ended at 2026-11-21T08:55:00Z with exit code 1", "--previous", "plugin-download"}}}},
		"has run long since it failed":           {runs(2 * time.Minute), nil},
		"ended": {func(s *snapshot) {
			s.controllerPod().Status = parse[corev1.PodStatus](`{phase: Running, containerStatuses: [{name: argo-rollouts, ready: false, restartCount: 0, image: x, imageID: x, state: {terminated: {exitCode: 1}}}]}`)
		}, []finding{{"controller-found", Failure, pod, []string{"exit code 1"}}}},
		"not scheduled": {func(s *snapshot) {
			s.controllerPod().Status = parse[corev1.PodStatus](`{phase: Pending}`)
		}, []finding{{"controller-found", Failure, pod, []string{"is not ready: Pending"}}}},
		"ConfigMap changed since": {func(s *snapshot) {
			later := metav1.NewTime(started.Add(time.Second))
			s.controller.config.Value.ManagedFields[0].Time = &later
		}, []finding{{"controller-restarted", Failure, controller, []string{"started at 2026-11-21T09:00:00Z", "at 2026-11-21T09:00:01Z", restart}}}},
		"ConfigMap made since": {func(s *snapshot) {
			s.controller.config.Value.ManagedFields = nil
			s.controller.config.Value.CreationTimestamp = metav1.NewTime(started.Add(time.Hour))
		}, []finding{{"controller-restarted", Failure, controller, []string{restart}}}},
	})
}

// A plugin that watches one namespace needs list and watch only there.
func TestWatchNamespace(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                                     "",
		"[--log-level=debug]":                    "",
		"[--watch-namespace=shop]":               "shop",
		"[--watch-namespace, shop]":              "shop",
		"[--self-heal=false, --watch-namespace]": "",
	} {
		item := plugintypes.PluginItem{Args: parse[[]string](text)}
		if got := watchNamespace(&item); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"[]": true, "[--self-heal]": true, "[--self-heal=false]": false, "[--self-heal=true]": true} {
		item := plugintypes.PluginItem{Args: parse[[]string](text)}
		if got := selfHeals(&item); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	for _, a := range kedifyNeeds("shop", "shop", true) {
		if a.namespace != "shop" {
			t.Errorf("%s %s is needed in %q", a.verb, a.resource, a.namespace)
		}
	}
}

func TestAccessFaults(t *testing.T) {
	const account = "ServiceAccount argo-rollouts/argo-rollouts"
	denyOn := func(resource string, verbs ...string) func(s *snapshot) {
		return func(s *snapshot) {
			for i := range s.plugins[0].access {
				if a := &s.plugins[0].access[i]; a.resource == resource && slices.Contains(verbs, a.verb) {
					a.allowed.Value = false
				}
			}
		}
	}
	deny := func(verbs ...string) func(s *snapshot) { return denyOn("httpscaledobjects.http.keda.sh", verbs...) }
	testFaults(t, faults{
		"RBAC missing": {deny("get", "patch", "list", "watch"), []finding{
			{"controller-access", Failure, account, []string{"may not get, patch httpscaledobjects.http.keda.sh in namespace shop", "kubectl apply -k deploy/rbac, with the subject ServiceAccount argo-rollouts/argo-rollouts", `grep -i "httpscaled\|forbidden"`}},
			{"controller-access", Warning, account, []string{"may not list, watch httpscaledobjects.http.keda.sh in all namespaces"}},
		}},
		"patch missing":              {deny("patch"), []finding{{"controller-access", Failure, account, []string{"may not patch"}}}},
		"watch missing":              {deny("watch"), []finding{{"controller-access", Warning, account, []string{"may not watch"}}}},
		"Rollouts cannot be watched": {denyOn("rollouts.argoproj.io", "list", "watch"), []finding{{"controller-access", Warning, account, []string{"may not list, watch rollouts.argoproj.io in all namespaces: what needs that does not work"}}}},
		"Rollouts cannot be read":    {denyOn("rollouts.argoproj.io", "get"), []finding{{"controller-access", Warning, account, []string{"may not get rollouts.argoproj.io in namespace shop: what needs that"}}}},
		"no Events":                  {denyOn("events", "create"), []finding{{"controller-access", Warning, account, []string{"may not create events in namespace shop"}}}},
		"not to be asked": {func(s *snapshot) {
			s.plugins[0].access = s.plugins[0].access[:1]
			s.plugins[0].access[0].allowed = read[bool]{Err: forbidden("create", "subjectaccessreviews.authorization.k8s.io", "", "")}
		}, []finding{{"controller-access", Warning, account, []string{"need create on subjectaccessreviews", "kubectl auth can-i get httpscaledobjects.http.keda.sh -n shop --as system:serviceaccount:argo-rollouts:argo-rollouts"}}}},
	})
}

func TestRolloutFaults(t *testing.T) {
	plugins := func(text string) func(s *snapshot) {
		return func(s *snapshot) {
			s.demo().Spec.Strategy.Canary.TrafficRouting = parse[*v1alpha1.RolloutTrafficRouting]("plugins: " + text)
		}
	}
	says := func(after time.Duration) func(s *snapshot) {
		return func(s *snapshot) {
			s.demo().Status.Phase = v1alpha1.RolloutPhaseProgressing
			s.demo().Status.Conditions = []v1alpha1.RolloutCondition{{Type: v1alpha1.RolloutProgressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(started)}}
			s.objects.events = []corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "Rollout", Name: "demo"}, LastTimestamp: metav1.NewTime(started.Add(after)), Message: "httpscaledobjects is forbidden"}}
		}
	}
	testFaults(t, faults{
		"does not exist": {func(s *snapshot) { s.rollout = "dmeo" }, []finding{{"rollout-found", Failure, "Rollout shop/dmeo", []string{"the namespace has demo"}}}},
		"none at all":    {func(s *snapshot) { s.settle(); s.rollout, s.objects.rollouts.Value = "demo", nil }, []finding{{"rollout-found", Failure, demo, []string{"the namespace has no Rollout"}}}},
		"none in the namespace": {func(s *snapshot) { s.objects.rollouts.Value = nil; s.objects.httpScaledObjects.Value = nil },
			[]finding{{"rollout-found", Warning, "Namespace shop", []string{"no Rollout here uses kedify/http"}}}},
		"kind unknown": {func(s *snapshot) {
			s.objects.rollouts = read[[]v1alpha1.Rollout]{Err: missingKind("rollouts.argoproj.io")}
		},
			[]finding{{"rollout-found", Failure, "Namespace shop", []string{"CustomResourceDefinitions"}}}},
		"not to be read": {func(s *snapshot) {
			s.objects.rollouts = read[[]v1alpha1.Rollout]{Err: forbidden("list", "rollouts.argoproj.io", "shop", "")}
		}, []finding{{"rollout-found", Warning, "Namespace shop", []string{"need list on rollouts.argoproj.io in namespace shop"}}}},
		"blue-green": {func(s *snapshot) {
			s.rollout = "demo"
			s.demo().Spec.Strategy = v1alpha1.RolloutStrategy{BlueGreen: &v1alpha1.BlueGreenStrategy{}}
		}, []finding{{"rollout-config", Failure, demo, []string{"spec.strategy.canary is missing"}}}},
		"another router": {func(s *snapshot) {
			s.rollout = "demo"
			s.demo().Spec.Strategy.Canary.TrafficRouting = nil
		}, []finding{{"rollout-config", Failure, demo, []string{"has no kedify/http"}}}},
		"mistyped plugin":    {plugins(`{kedify-http: {httpScaledObjectName: demo}}`), []finding{{"rollout-config", Failure, demo, []string{`but "kedify-http"`}}}},
		"mistyped key":       {plugins(`{kedify/http: {httpScaledObjectNam: demo}}`), []finding{{"rollout-config", Failure, demo, []string{"httpScaledObjectNam", "httpScaledObjectName"}}}},
		"one level too high": {plugins(`{httpScaledObjectName: demo}`), []finding{{"rollout-config", Failure, demo, []string{"one level too high", `plugins["kedify/http"]`}}}},
		"controller does not act": {func(s *snapshot) { s.demo().Generation = 4 },
			[]finding{{"rollout-health", Warning, demo, []string{"has not acted"}}}},
		"no weight can be set":      {says(time.Second), []finding{{"rollout-health", Failure, demo, []string{"the controller cannot set a weight: httpscaledobjects is forbidden"}}}},
		"a weight could not be set": {says(-time.Second), nil},
		"an earlier Rollout's Event": {func(s *snapshot) {
			says(time.Second)(s)
			s.demo().CreationTimestamp = metav1.NewTime(started.Add(2 * time.Hour))
		}, nil},
		"degraded": {func(s *snapshot) {
			s.demo().Status.Phase, s.demo().Status.Message = v1alpha1.RolloutPhaseDegraded, "ProgressDeadlineExceeded: timed out"
		}, []finding{{"rollout-health", Failure, demo, []string{"timed out", "kubectl argo rollouts -n shop get rollout demo"}}}},
		"aborted": {func(s *snapshot) {
			s.settle()
			s.demo().Status.CurrentPodHash = "green"
			s.demo().Status.Abort, s.demo().Status.Phase, s.demo().Status.Message = true, v1alpha1.RolloutPhaseDegraded, "RolloutAborted"
		}, []finding{{"rollout-health", Warning, demo, []string{"RolloutAborted", "retry rollout demo"}}}},
	})
}

func TestServiceFaults(t *testing.T) {
	stable, both := "Service shop/demo-stable", "Service shop/demo-stable, demo-canary"
	testFaults(t, faults{
		"canary Service missing": {func(s *snapshot) { s.objects.services.Value = s.objects.services.Value[:1] },
			[]finding{{"services-exist", Failure, "Service shop/demo-canary", []string{"does not exist", "create it"}}}},
		"not to be read": {func(s *snapshot) {
			s.objects.services = read[[]corev1.Service]{Err: forbidden("list", "services", "shop", "")}
		},
			[]finding{{"services-exist", Warning, "Namespace shop", []string{"need list on services"}}}},
		"canaryService not set": {func(s *snapshot) {
			s.settle()
			s.demo().Spec.Strategy.Canary.CanaryService = ""
		}, []finding{{"annotation", Failure, httpso, []string{"canaryService is missing"}}}},
		"one Service for both": {func(s *snapshot) { s.demo().Spec.Strategy.Canary.CanaryService = "demo-stable" }, []finding{
			{"annotation", Failure, httpso, []string{"both"}},
			{"backends-ready", Failure, stable, []string{"no ready endpoint (canary, weight 20)"}},
		}},
		"both on one side": {func(s *snapshot) { *s.canary() = service("demo-canary", "blue") }, []finding{
			{"service-selectors", Failure, both, []string{"both select the pods of hash blue while the canary has weight 20"}},
			{"backends-ready", Failure, "Service shop/demo-canary", []string{"no ready endpoint (canary, weight 20): ReplicaSet demo-green has 1 of 1 pod ready", "get endpointslices"}},
		}},
		"selector reset": {func(s *snapshot) { delete(s.stable().Spec.Selector, v1alpha1.DefaultRolloutUniqueLabelKey) },
			[]finding{{"service-selectors", Failure, both, []string{"takes in the pods of both sides"}}}},
		"selects other pods": {func(s *snapshot) { s.canary().Spec.Selector["app"] = "dmeo" },
			[]finding{{"service-selectors", Failure, "Service shop/demo-canary", []string{"selects app=dmeo, but the Rollout's pods are labelled app=demo"}}}},
	})
}

func TestHTTPScaledObjectFaults(t *testing.T) {
	testFaults(t, faults{
		"missing": {func(s *snapshot) { s.objects.httpScaledObjects.Value = nil },
			[]finding{{"httpscaledobject-exists", Failure, httpso, []string{"does not exist", "describe scaledobject demo", "correct httpScaledObjectName"}}}},
		"kind unknown": {func(s *snapshot) {
			s.objects.httpScaledObjects = read[[]httpScaledObject]{Err: missingKind("httpscaledobjects.http.keda.sh")}
		}, []finding{{"httpscaledobject-exists", Failure, "Namespace shop", []string{"CustomResourceDefinition"}}}},
		"not to be read": {func(s *snapshot) {
			s.objects.httpScaledObjects = read[[]httpScaledObject]{Err: forbidden("list", "httpscaledobjects.http.keda.sh", "shop", "")}
		}, []finding{{"httpscaledobject-exists", Warning, "Namespace shop", []string{"need list on httpscaledobjects.http.keda.sh"}}}},
		"targets canary": {func(s *snapshot) { s.httpso().Spec.ScaleTargetRef.Service = "demo-canary" },
			[]finding{{"target-service", Failure, httpso, []string{`is "demo-canary", want the stable Service "demo-stable"`, "take service out"}}}},
		"port unknown": {func(s *snapshot) { s.canary().Spec.Ports[0].Port = 81 },
			[]finding{{"target-service", Failure, httpso, []string{"asks for port 80, which Service demo-canary does not have (it has 81)"}}}},
		"port name unknown": {func(s *snapshot) {
			s.httpso().Spec.ScaleTargetRef.Port, s.httpso().Spec.ScaleTargetRef.PortName = 0, "web"
			s.stable().Spec.Ports[0].Name = "web"
			s.objects.endpointSlices.Value[0].Ports[0].Name = &s.stable().Spec.Ports[0].Name
		}, []finding{{"target-service", Failure, httpso, []string{"portName web, which Service demo-canary"}}}},
	})
}

func TestAnnotationFaults(t *testing.T) {
	annotate := func(value, owner string) func(s *snapshot) {
		return func(s *snapshot) {
			for key, text := range map[string]string{weightedbackends.Annotation: value, weightedbackends.OwnerAnnotation: owner} {
				delete(s.httpso().Annotations, key)
				if text != "" {
					s.httpso().Annotations[key] = text
				}
			}
		}
	}
	split := func(text string) string {
		var backends []weightedbackends.Backend
		for _, part := range strings.Fields(text) {
			var b weightedbackends.Backend
			name, weight, _ := strings.Cut(part, "=")
			b.Service = name
			if _, err := fmt.Sscan(weight, &b.Weight); err != nil {
				panic(err)
			}
			backends = append(backends, b)
		}
		return weightedbackends.Format(backends)
	}
	right := split("demo-stable=80 demo-canary=20")
	both := func(makers ...func(*snapshot)) func(s *snapshot) {
		return func(s *snapshot) {
			for _, make := range makers {
				make(s)
			}
		}
	}
	other := func(s *snapshot) {
		s.objects.rollouts.Value = append(s.objects.rollouts.Value, v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "shop"}})
	}
	one := func(status Status, says ...string) []finding { return []finding{{"annotation", status, httpso, says}} }
	const remove = "kubectl -n shop annotate httpscaledobject demo http.kedify.io/weighted-backends- http.kedify.io/weighted-backends-rollout-"
	testFaults(t, faults{
		"taken off by hand":   {annotate("", ""), one(Failure, "carries no split, the Rollout's status says demo-stable=80,demo-canary=20", `logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden"`)},
		"other weights":       {annotate(split("demo-stable=50 demo-canary=50"), "demo"), one(Failure, "carries demo-stable=50,demo-canary=50", "says demo-stable=80,demo-canary=20")},
		"another Service":     {annotate(split("demo-stable=80 web=20"), "demo"), one(Failure, "carries demo-stable=80,web=20")},
		"not to be parsed":    {annotate("- service", "demo"), one(Failure, "cannot be read", remove)},
		"no owner":            {annotate(right, ""), one(Warning, "does not say who set it")},
		"owner without split": {both((*snapshot).settle, annotate("", "demo")), one(Warning, "but no split", remove)},
		"split of another": {both(other, func(s *snapshot) {
			unreadable := s.demo().Spec.Strategy.DeepCopy()
			unreadable.Canary.StableService, unreadable.Canary.CanaryService = "a", "b"
			unreadable.Canary.TrafficRouting.Plugins["kedify/http"] = []byte("{}")
			s.objects.rollouts.Value[1].Spec.Strategy = *unreadable
			s.rollout = "demo"
		}, annotate(right, "other")), one(Failure, "carries the split of Rollout other, so Rollout demo")},
		"split of one that does not name it": {both(other, annotate(right, "other")), one(Failure, "carries the split of Rollout other, which does not exist, or does not name it", "takes it over", remove)},
		"split of nobody":                    {annotate(right, "gone"), one(Failure, "carries the split of Rollout gone, which does not exist", remove)},
		"left at weight 0":                   {both((*snapshot).settle, annotate(right, "demo")), one(Failure, "the Rollout's status says none", remove)},
		"experiment left out": {func(s *snapshot) {
			w := s.demo().Status.Canary.Weights
			w.Stable.Weight = 70
			w.Additional = []v1alpha1.WeightDestination{{ServiceName: "demo-exp", Weight: 10, PodTemplateHash: "red"}}
			s.objects.services.Value = append(s.objects.services.Value, service("demo-exp", "red"))
			s.objects.endpointSlices.Value = append(s.objects.endpointSlices.Value, endpoints("demo-exp"))
		}, one(Failure, "says demo-stable=70,demo-canary=20,demo-exp=10")},
		"split of nobody on an object of nobody": {func(s *snapshot) {
			web := *s.httpso()
			web.Name, web.Annotations = "web", map[string]string{weightedbackends.Annotation: "- service: a\n  weight: 1\n"}
			s.objects.httpScaledObjects.Value = append(s.objects.httpScaledObjects.Value, web)
		}, []finding{{"annotation", Warning, "HTTPScaledObject shop/web", []string{"carries a split of nobody, and no Rollout names it: - service: a weight: 1", "annotate httpscaledobject web"}}}},
		"orphan": {func(s *snapshot) {
			s.settle()
			web := *s.httpso()
			web.Name, web.Annotations = "web", map[string]string{weightedbackends.Annotation: right, weightedbackends.OwnerAnnotation: "gone"}
			s.objects.httpScaledObjects.Value = append(s.objects.httpScaledObjects.Value, web)
		}, []finding{{"annotation", Failure, "HTTPScaledObject shop/web", []string{"carries a split of Rollout gone, and no Rollout names it", "see controller-access"}}}},
		"plugin taken out in the middle": {func(s *snapshot) {
			s.demo().Spec.Strategy.Canary.TrafficRouting = nil
		}, []finding{
			{"rollout-found", Warning, "Namespace shop", []string{"no Rollout here uses kedify/http"}},
			{"annotation", Failure, "HTTPScaledObject shop/demo", []string{"carries a split of Rollout demo, and no Rollout names it", remove}},
		}},
	})
}

func TestBackendFaults(t *testing.T) {
	canary, stable := "Service shop/demo-canary", "Service shop/demo-stable"
	one := func(says ...string) []finding {
		return []finding{{"backends-ready", Failure, canary, append(says, "no ready endpoint (canary, weight 20)")}}
	}
	atZero := func(change func(s *snapshot)) func(s *snapshot) {
		return func(s *snapshot) {
			s.noCanaryEndpoints()
			s.objects.replicaSets.Value[1] = replicaSetOf("green", "0")
			change(s)
		}
	}
	testFaults(t, faults{
		"ReplicaSet at 0": {atZero(func(*snapshot) {}), one("ReplicaSet demo-green is at 0 replicas", "kubectl -n shop get rs,pods -l", "endpointslices", "see rollout-health")},
		"maxSurge 0 on one replica": {atZero(func(s *snapshot) {
			one, zero := int32(1), intstr.FromInt32(0)
			s.demo().Spec.Replicas, s.demo().Spec.Strategy.Canary.MaxSurge = &one, &zero
		}), one("maxSurge is 0 on a Rollout of 1 replica", "spec.replicas")},
		"maxSurge 0% on one replica": {atZero(func(s *snapshot) {
			one, zero := int32(1), intstr.FromString("0%")
			s.demo().Spec.Replicas, s.demo().Spec.Strategy.Canary.MaxSurge = &one, &zero
		}), one("maxSurge is 0 on a Rollout of 1 replica")},
		"maxSurge 0 on the one replica of a Rollout that names no number": {atZero(func(s *snapshot) {
			s.demo().Spec.Replicas, s.demo().Spec.Strategy.Canary.MaxSurge = nil, new(intstr.IntOrString)
		}), one("maxSurge is 0 on a Rollout of 1 replica")},
		"setCanaryScale 0": {atZero(func(s *snapshot) {
			s.demo().Spec.Strategy.Canary.Steps[1] = v1alpha1.CanaryStep{SetCanaryScale: &v1alpha1.SetCanaryScale{Replicas: new(int32)}}
		}), one("a setCanaryScale step asks for none")},
		"quota": {atZero(func(s *snapshot) {
			rs := replicaSetOf("green", "1")
			rs.Status = scaleStatus{Conditions: []condition{{Type: "ReplicaFailure", Status: corev1.ConditionTrue, Message: "exceeded quota"}}}
			s.objects.replicaSets.Value[1] = rs
		}), one("has 0 of 0 pods ready: exceeded quota")},
		"pods that do not become ready": {func(s *snapshot) {
			s.noCanaryEndpoints()
			s.objects.replicaSets.Value[1].Status.AvailableReplicas = 0
		}, one("ReplicaSet demo-green has 0 of 1 pod ready", "get rs,pods")},
		"targetPort of no container": {func(s *snapshot) { s.objects.endpointSlices.Value[1].Ports = nil }, one("has 1 of 1 pod ready")},
		"selector matches nothing": {func(s *snapshot) {
			s.noCanaryEndpoints()
			s.canary().Spec.Selector["app"] = "dmeo"
		}, append([]finding{{"service-selectors", Failure, canary, nil}}, one()...)},
		"no ReplicaSet": {func(s *snapshot) {
			s.noCanaryEndpoints()
			s.objects.replicaSets.Value = s.objects.replicaSets.Value[:1]
		}, one("there is no ReplicaSet of hash green")},
		"ReplicaSets not to be read": {func(s *snapshot) {
			s.noCanaryEndpoints()
			s.objects.replicaSets = read[[]replicaSet]{Err: forbidden("list", "replicasets.apps", "shop", "")}
		}, one("could not look at its ReplicaSet: need list on replicasets.apps")},
		"ReplicaSets not to be read of a Rollout at 0": {func(s *snapshot) {
			s.settle()
			s.demo().Spec.Replicas = new(int32)
			s.objects.endpointSlices.Value = nil
			s.objects.replicaSets = read[[]replicaSet]{Err: forbidden("list", "replicasets.apps", "shop", "")}
		}, []finding{{"backends-ready", Warning, stable, []string{"the Rollout is scaled to 0"}}}},
		"a status without a ReplicaSet": {func(s *snapshot) {
			s.settle()
			s.demo().Status = v1alpha1.RolloutStatus{}
			s.objects.endpointSlices.Value = nil
		}, []finding{
			{"rollout-health", Warning, demo, nil},
			{"backends-ready", Warning, stable, []string{"the Rollout's status names no ReplicaSet"}},
		}},
		"EndpointSlices not to be read": {func(s *snapshot) {
			s.objects.endpointSlices = read[[]endpointSlice]{Err: forbidden("list", "endpointslices.discovery.k8s.io", "shop", "")}
		}, []finding{{"backends-ready", Warning, "Namespace shop", []string{"need list on endpointslices.discovery.k8s.io"}}}},
		"about to get weight, starting": {func(s *snapshot) {
			s.demo().Status.Canary.Weights.Canary.Weight, s.demo().Status.Canary.Weights.Stable.Weight = 0, 100
			delete(s.httpso().Annotations, weightedbackends.Annotation)
			delete(s.httpso().Annotations, weightedbackends.OwnerAnnotation)
			*s.canary() = service("demo-canary", "blue") // not switched before a pod is available
			s.objects.replicaSets.Value[1].Status.AvailableReplicas = 0
		}, []finding{{"backends-ready", Warning, canary, []string{"about to get weight 20", "has 0 of 1 pod ready"}}}},
		"scaled to 0 by KEDA": {func(s *snapshot) {
			s.settle()
			s.demo().Spec.Replicas = new(int32)
			s.objects.scaledObjects.Value[0].Spec.MinReplicaCount = nil
			s.objects.replicaSets.Value[0] = replicaSetOf("blue", "0")
			s.objects.endpointSlices.Value = nil
		}, []finding{
			{"backends-ready", Warning, stable, []string{"the Rollout is scaled to 0", "set minReplicaCount above 0"}},
			{"scaledobject-min-replicas", Warning, "ScaledObject shop/demo", []string{"minReplicaCount is 0"}},
		}},
		"scaled to 0 by KEDA mid-canary": {func(s *snapshot) {
			s.demo().Spec.Replicas = new(int32)
			s.objects.scaledObjects.Value[0].Spec.MinReplicaCount = nil
			s.objects.replicaSets.Value[0] = replicaSetOf("blue", "0")
			s.objects.endpointSlices.Value = s.objects.endpointSlices.Value[1:]
		}, []finding{
			{"backends-ready", Failure, stable, []string{"the Rollout is scaled to 0", "set minReplicaCount above 0"}},
			{"scaledobject-min-replicas", Warning, "ScaledObject shop/demo", nil},
		}},
		"stable at 0": {func(s *snapshot) {
			s.objects.replicaSets.Value[0] = replicaSetOf("blue", "0")
			s.objects.endpointSlices.Value = s.objects.endpointSlices.Value[1:]
		}, []finding{{"backends-ready", Failure, stable, []string{"ReplicaSet demo-blue is at 0 replicas"}}}},
		"ScaledObjects not to be read": {func(s *snapshot) {
			s.objects.scaledObjects = read[[]scaledObject]{Err: forbidden("list", "scaledobjects.keda.sh", "shop", "")}
		}, []finding{{"scaledobject-min-replicas", Warning, demo, []string{"need list on scaledobjects.keda.sh"}}}},
		"experiment's Service gone": {func(s *snapshot) {
			w := s.demo().Status.Canary.Weights
			w.Stable.Weight = 70
			w.Additional = []v1alpha1.WeightDestination{{ServiceName: "demo-exp", Weight: 10}}
			s.httpso().Annotations[weightedbackends.Annotation] = weightedbackends.Format([]weightedbackends.Backend{{Service: "demo-stable", Weight: 70}, {Service: "demo-canary", Weight: 20}, {Service: "demo-exp", Weight: 10}})
		}, []finding{{"backends-ready", Failure, "Service shop/demo-exp", []string{"does not exist (experiment, weight 10)"}}}},
	})
}
