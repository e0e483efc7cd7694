package deploy_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
)

const interceptorName = "keda-add-ons-http-interceptor"

// The interceptor may read what its routes are made of and write Events, and
// nothing else.
func TestInterceptorPermissions(t *testing.T) {
	var role rbacv1.ClusterRole
	read(t, "interceptor/clusterrole.yaml", &role)
	equal(t, "rules", []rbacv1.PolicyRule{
		{APIGroups: []string{"http.keda.sh"}, Resources: []string{"httpscaledobjects"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}, role.Rules)
	var binding rbacv1.ClusterRoleBinding
	read(t, "interceptor/clusterrolebinding.yaml", &binding)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.RoleRef)
	var account corev1.ServiceAccount
	read(t, "interceptor/serviceaccount.yaml", &account)
	equal(t, "subjects", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: "keda"}}, binding.Subjects)
	equal(t, "ServiceAccount", account.Name, deployment(t, "interceptor").Spec.Template.Spec.ServiceAccountName)
	equal(t, "name", interceptorName, account.Name)
}

// kedify-proxy runs under a ServiceAccount of its own, without its token.
func TestKedifyProxyServiceAccount(t *testing.T) {
	var account corev1.ServiceAccount
	read(t, "kedify-proxy/serviceaccount.yaml", &account)
	pod := deployment(t, "kedify-proxy").Spec.Template.Spec
	equal(t, "ServiceAccount", account.Name, pod.ServiceAccountName)
	equal(t, "the account's token", false, *account.AutomountServiceAccountToken)
	equal(t, "the pod's token", false, *pod.AutomountServiceAccountToken)
}

// Each Service is at the ports that users know, and each leads to a port of the
// container with the same number.
func TestServicePorts(t *testing.T) {
	for dir, want := range map[string]map[string][]int32{
		"interceptor": {
			interceptorName + "-proxy":    {8080, 8443},
			interceptorName + "-fallback": {8081},
			interceptorName + "-admin":    {9090, 2223},
			interceptorName + "-xds":      {5678},
		},
		"kedify-proxy": {"kedify-proxy": {8080, 8443}, "kedify-proxy-admin": {9901}},
		"scaler":       {scalerName: {9090}, scalerName + "-metrics": {2223}},
		"agent":        {agentName: {9443}, agentName + "-metrics": {2223}},
	} {
		t.Run(dir, func(t *testing.T) {
			pod := deployment(t, dir).Spec.Template
			got := map[string][]int32{}
			for _, document := range documents(t, dir+"/services.yaml") {
				var service corev1.Service
				if err := yaml.UnmarshalStrict(document, &service); err != nil {
					t.Fatal(err)
				}
				for key, value := range service.Spec.Selector {
					equal(t, service.Name+" selects "+key, pod.Labels[key], value)
				}
				for _, port := range service.Spec.Ports {
					got[service.Name] = append(got[service.Name], port.Port)
					equal(t, service.Name+": port "+port.Name, port.Port, containerPort(pod.Spec, port.TargetPort.StrVal))
				}
				// Kedify-proxies get the address of this Service.
				if flag := "--fallback-service=" + service.Name; service.Name == interceptorName+"-fallback" {
					equal(t, service.Name+": type", corev1.ServiceTypeClusterIP, service.Spec.Type)
					if !slices.Contains(pod.Spec.Containers[0].Args, flag) {
						t.Errorf("no %s among the arguments %q", flag, pod.Spec.Containers[0].Args)
					}
				}
			}
			equal(t, "ports", want, got)
		})
	}
}

// containerPort returns the number of a pod's port with this name, or 0.
func containerPort(pod corev1.PodSpec, name string) int32 {
	for _, container := range pod.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// There are two replicas, of which one is always running, and the restricted Pod Security
// Standard admits them.
func TestReplicasAndRestrictions(t *testing.T) {
	for _, dir := range []string{"interceptor", "kedify-proxy", "scaler", "agent"} {
		t.Run(dir, func(t *testing.T) {
			d := deployment(t, dir)
			labels := d.Spec.Selector.MatchLabels
			equal(t, "replicas", 2, *d.Spec.Replicas)
			equal(t, "maxUnavailable", 0, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
			var budget policyv1.PodDisruptionBudget
			read(t, dir+"/poddisruptionbudget.yaml", &budget)
			equal(t, "minAvailable", 1, budget.Spec.MinAvailable.IntValue())
			equal(t, "PodDisruptionBudget's pods", labels, budget.Spec.Selector.MatchLabels)

			pod := d.Spec.Template.Spec
			for _, spread := range pod.TopologySpreadConstraints {
				equal(t, "spread over "+spread.TopologyKey, labels, spread.LabelSelector.MatchLabels)
				equal(t, "spread where it cannot be", corev1.ScheduleAnyway, spread.WhenUnsatisfiable)
			}
			if len(pod.TopologySpreadConstraints) == 0 {
				t.Error("the replicas are not spread")
			}
			if c := pod.SecurityContext; !*c.RunAsNonRoot || *c.RunAsUser == 0 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("the pod's security context: %+v", c)
			}
			for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
				c := container.SecurityContext
				if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
					t.Errorf("container %s: %+v", container.Name, c)
				}
				if container.Resources.Limits.Memory().IsZero() {
					t.Errorf("container %s has no memory limit", container.Name)
				}
				if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() {
					t.Errorf("container %s asks for no CPU or memory", container.Name)
				}
			}
		})
	}
}

// Requests are refused before the kernel kills a container for its memory: by the
// interceptor at nine tenths of GOMEMLIMIT, by Envoy at nine tenths of its heap.
func TestMemoryRunsShortBeforeTheLimit(t *testing.T) {
	interceptor := deployment(t, "interceptor").Spec.Template.Spec.Containers[0]
	var ofGo resource.Quantity
	for _, variable := range interceptor.Env {
		if variable.Name == "GOMEMLIMIT" {
			ofGo = resource.MustParse(strings.TrimSuffix(variable.Value, "B"))
		}
	}
	limit := interceptor.Resources.Limits.Memory().Value()
	if got := ofGo.Value(); got > limit/10*9 || got < limit/10*8 {
		t.Errorf("GOMEMLIMIT is %d of %d bytes, want nine tenths or a little less", got, limit)
	}
	// The memory of an interceptor with ten thousand objects, as many waiting requests as
	// there is room for, and other connections: tenants that fill the waiting room do not
	// cause new requests to be refused.
	const objects, connections = 200_000_000, 8_000 * 30_000
	if most, short := objects+proxy.DefaultSettings().MaxHeldBytes+connections, ofGo.Value()/10*9; most > short {
		t.Errorf("it may take %d bytes, and memory is short from %d", most, short)
	}
	limit = deployment(t, "kedify-proxy").Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	if maxHeap > limit/10*9 || maxHeap < limit/10*8 {
		t.Errorf("Envoy's heap is %d of %d bytes, want nine tenths or a little less", maxHeap, limit)
	}
}

// maxHeap is the heap limit of the bootstraps in deploy, as hack/generate.sh has it.
const maxHeap = 900 << 20

// A pod has the time that its program takes to stop, and more.
func TestTerminationGracePeriods(t *testing.T) {
	interceptor := deployment(t, "interceptor").Spec.Template.Spec
	text := strings.Join(interceptor.Containers[0].Args, "\n")
	stop := seconds(t, text, "drain-delay") + seconds(t, text, "shutdown-timeout")
	if grace := grace(interceptor); grace < stop+5*time.Second {
		t.Errorf("the interceptor stops within %s and has %s", stop, grace)
	}

	proxy := deployment(t, "kedify-proxy").Spec.Template.Spec
	hook := proxy.Containers[0].Lifecycle.PreStop.Exec.Command
	stop = seconds(t, strings.Join(hook, "\n"), "timeout")
	if grace := grace(proxy); grace < stop+5*time.Second {
		t.Errorf("kedify-proxy's preStop takes %s, and it has %s", stop, grace)
	}
	// The hook runs the program that the init container has installed.
	drain := proxy.InitContainers[0]
	equal(t, "preStop", []string{drain.Args[1], "drain"}, hook[:2])
	equal(t, "init container", []string{"install", "/drain/interceptor"}, drain.Args)
	equal(t, "its image", interceptor.Containers[0].Image, drain.Image)
}

func grace(pod corev1.PodSpec) time.Duration {
	return time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
}

// seconds returns the value of a flag among arguments, one a line.
func seconds(t *testing.T, args, flag string) time.Duration {
	t.Helper()
	match := regexp.MustCompile(`(?m)^--` + flag + `=(.+)$`).FindStringSubmatch(args)
	if match == nil {
		t.Fatalf("no --%s in %q", flag, args)
	}
	d, err := time.ParseDuration(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The ports that trust their clients take connections of kedify-proxies alone.
func TestInterceptorNetworkPolicy(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	read(t, "interceptor/networkpolicy.yaml", &policy)
	interceptor, proxy := deployment(t, "interceptor").Spec, deployment(t, "kedify-proxy").Spec
	equal(t, "pods", interceptor.Selector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
	got := map[string]string{}
	for _, rule := range policy.Spec.Ingress {
		from := "anywhere"
		if len(rule.From) > 0 {
			equal(t, "who is let in", []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{},
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
					"app.kubernetes.io/name": proxy.Template.Labels["app.kubernetes.io/name"],
				}},
			}}, rule.From)
			from = "kedify-proxy"
		}
		for _, port := range rule.Ports {
			got[strconv.Itoa(int(containerPort(interceptor.Template.Spec, port.Port.StrVal)))] = from
		}
	}
	equal(t, "who may connect", map[string]string{
		"8080": "anywhere", "8443": "anywhere", "9090": "anywhere", "2223": "anywhere",
		"5678": "kedify-proxy", "8081": "kedify-proxy",
	}, got)
}

// Every client reaches the ports of kedify-proxy that a Service leads to, and no other
// port.
func TestKedifyProxyNetworkPolicy(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	read(t, "kedify-proxy/networkpolicy.yaml", &policy)
	proxy := deployment(t, "kedify-proxy").Spec
	equal(t, "pods", proxy.Selector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
	equal(t, "policyTypes", []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.Spec.PolicyTypes)
	var open []int32
	for _, rule := range policy.Spec.Ingress {
		equal(t, "limits on who", 0, len(rule.From))
		for _, port := range rule.Ports {
			open = append(open, containerPort(proxy.Template.Spec, port.Port.StrVal))
		}
	}
	equal(t, "open ports", []int32{8080, 8443, 9901}, open)
	if !strings.Contains(readText(t, "kedify-proxy/kustomization.yaml"), "  - networkpolicy.yaml\n") {
		t.Error("the kustomization does not have it")
	}
}

// An Envoy that waits for an interceptor listens only at its admin interface, and must not
// be restarted for that.
func TestKedifyProxyIsNotRestartedWhileItWaits(t *testing.T) {
	envoy := deployment(t, "kedify-proxy").Spec.Template.Spec.Containers[0]
	if envoy.LivenessProbe != nil || envoy.StartupProbe != nil {
		t.Errorf("probes that restart it: %+v, %+v", envoy.LivenessProbe, envoy.StartupProbe)
	}
}

// kedify-proxy's bootstrap is what `interceptor bootstrap` prints, and leads to
// the xDS Service; each fleet has the HTTPScaledObjects of its namespace.
func TestKedifyProxyBootstrap(t *testing.T) {
	var configMap corev1.ConfigMap
	read(t, "kedify-proxy/configmap.yaml", &configMap)
	want, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: interceptorName + "-xds.keda:5678", MaxHeap: maxHeap})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), configMap.Data["envoy.yaml"]); diff != "" {
		t.Errorf("envoy.yaml is not current: run make generate (-want +got):\n%s", diff)
	}

	container := deployment(t, "kedify-proxy").Spec.Template.Spec.Containers[0]
	equal(t, "image", "envoyproxy/envoy:v1.40.0", container.Image)
	args := strings.Join(container.Args, " ")
	if want := `--config-yaml node: {metadata: {` + envoy.NamespacesKey + `: ["$(POD_NAMESPACE)"], ` + envoy.PodKey + `: "$(POD_NAMESPACE)/$(POD_NAME)"}}`; !strings.Contains(args, want) {
		t.Errorf("arguments %q do not limit it to its namespace (%s)", args, want)
	}
}

// The image that the manifests name is the one that the Makefile makes.
func TestInterceptorImage(t *testing.T) {
	image := deployment(t, "interceptor").Spec.Template.Spec.Containers[0].Image
	if want := "INTERCEPTOR_IMG ?= " + image + "\n"; !strings.Contains(readText(t, "../Makefile"), want) {
		t.Errorf("the Makefile does not make %s by default", image)
	}
}

func deployment(t *testing.T, dir string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	read(t, dir+"/deployment.yaml", &d)
	return d
}
