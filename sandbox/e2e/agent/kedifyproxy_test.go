package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	proxy       = "kedify-proxy"
	proxyConfig = "kedify-agent-kedify-proxy"
	managedBy   = "app.kubernetes.io/managed-by"
	agentUser   = "system:serviceaccount:keda:kedify-agent"
)

// proxyParts are the resources of a kedify-proxy that have its name.
var proxyParts = []schema.GroupVersionResource{
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
}

// proxied returns an application at 0, and a ScaledObject for it with a kedify-http trigger.
func proxied(name string) string {
	return traffictest.Deployment(name, "blue", 0) + fmt.Sprintf(`---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: %[1]s
spec:
  scaleTargetRef:
    name: %[1]s
  minReplicaCount: 0
  triggers:
    - type: kedify-http
      metadata:
        hosts: %[1]s.example
        service: %[1]s
        port: "80"
        scalingMetric: requestRate
        targetValue: "10"
`, name)
}

// proxyOf returns an object of a namespace's kedify-proxy; nil if it is not there.
func proxyOf(ctx context.Context, n *e2etest.Namespace, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	object, err := n.Dynamic.Resource(resource).Namespace(n.Name).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// awaitProxy waits until all objects of a kedify-proxy of the agent's are there, or none.
func awaitProxy(t *testing.T, n *e2etest.Namespace, there bool) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("a kedify-proxy of the agent's: %t", there), func(ctx context.Context) error {
		for _, resource := range proxyParts {
			object, err := proxyOf(ctx, n, resource, proxy)
			if err != nil {
				return err
			}
			if (object != nil) != there || there && object.GetLabels()[managedBy] != "kedify-agent" {
				return fmt.Errorf("%s: %v", resource.Resource, object)
			}
		}
		object, err := proxyOf(ctx, n, proxyParts[1], proxy+"-admin")
		if err == nil && (object != nil) != there {
			err = fmt.Errorf("Service %s-admin: %v", proxy, object)
		}
		return err
	})
}

// patch changes an object of a kedify-proxy by a merge patch.
func patch(t *testing.T, n *e2etest.Namespace, resource schema.GroupVersionResource, text string) {
	t.Helper()
	_, err := n.Dynamic.Resource(resource).Namespace(n.Name).Patch(t.Context(), proxy, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
}

// configureProxy changes a text of the ConfigMap that kedify-proxies are made from, and puts it
// back when the test ends.
func configureProxy(t *testing.T, c *e2etest.Cluster, file, old, text string) {
	t.Helper()
	configMaps := c.Kube.CoreV1().ConfigMaps(keda.Namespace)
	read, err := configMaps.Get(t.Context(), proxyConfig, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := read.Data[file]
	if !strings.Contains(before, old) {
		t.Fatalf("%s has no %q", file, old)
	}
	set := func(ctx context.Context, text string) error {
		data, err := json.Marshal(map[string]any{"data": map[string]string{file: text}})
		if err == nil {
			_, err = configMaps.Patch(ctx, proxyConfig, types.MergePatchType, data, metav1.PatchOptions{})
		}
		return err
	}
	if err := set(t.Context(), strings.ReplaceAll(before, old, text)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(context.Background(), before); err != nil {
			t.Errorf("putting the ConfigMap back: %v", err)
		}
	})
}

// A kedify-proxy comes with the first ScaledObject of a namespace and goes with the last. In
// between the agent puts back what is deleted or changed of it, and leaves what others add and
// scale.
func TestKedifyProxyComesAndGoes(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(proxied("first") + proxied("last"))
	awaitProxy(t, n, true)
	n.Kubectl("rollout", "status", "deployment/"+proxy, "--timeout=2m")

	n.Kubectl("delete", "service,networkpolicy,serviceaccount", proxy)
	awaitProxy(t, n, true)

	n.Kubectl("scale", "deployment", proxy, "--replicas=1")
	n.Kubectl("annotate", "deployment", proxy, "example.com/theirs=stays")
	patch(t, n, proxyParts[0], `{"spec": {"minReadySeconds": 1, "template": {"spec": {"terminationGracePeriodSeconds": 1}}}}`)
	e2etest.Eventually(t, e2etest.Patience, "the agent's field as it was", func(ctx context.Context) error {
		d, err := n.Kube.AppsV1().Deployments(n.Name).Get(ctx, proxy, metav1.GetOptions{})
		if err == nil && *d.Spec.Template.Spec.TerminationGracePeriodSeconds == 1 {
			err = errors.New("terminationGracePeriodSeconds is 1")
		}
		return err
	})
	d, err := n.Kube.AppsV1().Deployments(n.Name).Get(t.Context(), proxy, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *d.Spec.Replicas != 1 || d.Annotations["example.com/theirs"] != "stays" || d.Spec.MinReadySeconds != 1 {
		t.Errorf("%d replicas, minReadySeconds %d, annotations %v: expected what others have written", *d.Spec.Replicas, d.Spec.MinReadySeconds, d.Annotations)
	}

	n.Kubectl("delete", "scaledobject", "first")
	awaitNoObject(t, n, "first")
	awaitProxy(t, n, true)
	n.Kubectl("delete", "scaledobject", "last")
	awaitProxy(t, n, false)
}

// awaitNoObject waits until an HTTPScaledObject is gone.
func awaitNoObject(t *testing.T, n *e2etest.Namespace, name string) {
	t.Helper()
	objects := n.Dynamic.Resource(schema.GroupVersionResource{Group: "http.keda.sh", Version: "v1alpha1", Resource: "httpscaledobjects"}).Namespace(n.Name)
	e2etest.Eventually(t, e2etest.Patience, "no HTTPScaledObject "+name, func(ctx context.Context) error {
		_, err := objects.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// A kedify-proxy that somebody else has made is neither changed nor removed.
func TestKedifyProxyOfOthers(t *testing.T) {
	t.Parallel()
	theirs, control := e2etest.NewNamespace(t), e2etest.NewNamespace(t)
	for _, file := range []string{"services.yaml", "poddisruptionbudget.yaml"} {
		text, err := os.ReadFile("../../../deploy/kedify-proxy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		theirs.Apply(string(text))
	}
	version := func() (versions []string) {
		for _, resource := range proxyParts {
			object, err := proxyOf(t.Context(), theirs, resource, proxy)
			switch {
			case err != nil:
				t.Fatal(err)
			case object != nil:
				// Its status may be written.
				managers := slices.DeleteFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" })
				versions = append(versions, fmt.Sprint(resource.Resource, object.GetUID(), object.GetDeletionTimestamp(), managers))
			}
		}
		return versions
	}
	before := version()
	// The agent takes one namespace after the other.
	theirs.Apply(proxied("app"))
	control.Apply(proxied("app"))
	awaitProxy(t, control, true)
	theirs.Kubectl("delete", "scaledobject", "app")
	control.Kubectl("delete", "scaledobject", "app")
	awaitNoObject(t, theirs, "app")
	awaitProxy(t, control, false)
	if after := version(); !slices.Equal(before, after) {
		t.Errorf("it was\n%s\nand is\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// A change of the ConfigMap reaches the kedify-proxies that are there. One that the agent
// cannot read, or whose image the policy does not know, changes none, and has an Event.
//
// Not at the same time as others: all namespaces are made from that ConfigMap.
func TestKedifyProxyConfigMap(t *testing.T) {
	n := e2etest.NewNamespace(t)
	n.Apply(proxied("app"))
	awaitProxy(t, n, true)
	deployment := func(ctx context.Context) *appsv1.Deployment {
		d, err := n.Kube.AppsV1().Deployments(n.Name).Get(ctx, proxy, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	await := func(t *testing.T, seconds int64) {
		e2etest.Eventually(t, e2etest.Patience, fmt.Sprintf("terminationGracePeriodSeconds: %d", seconds), func(ctx context.Context) error {
			if is := *deployment(ctx).Spec.Template.Spec.TerminationGracePeriodSeconds; is != seconds {
				return fmt.Errorf("it is %d", is)
			}
			return nil
		})
	}
	t.Run("changed", func(t *testing.T) {
		configureProxy(t, n.Cluster, "deployment.yaml", "terminationGracePeriodSeconds: 35", "terminationGracePeriodSeconds: 36")
		await(t, 36)
	})
	await(t, 35)
	generation := deployment(t.Context()).Generation
	for name, test := range map[string]struct{ file, old, text, reason, says string }{
		"not a manifest":  {"services.yaml", "kind: Service\n", "kind: Secret\n", "KedifyProxyTemplate", "is not a part of kedify-proxy"},
		"a wrong field":   {"deployment.yaml", "automountServiceAccountToken: false", "automountServiceAccountTokens: false", "KedifyProxyRefused", "automountServiceAccountTokens"},
		"a hostPath":      {"deployment.yaml", "emptyDir: {}", "hostPath: {path: /}", "KedifyProxyRefused", "the agent may only mount"},
		"a changed label": {"deployment.yaml", "kedify-proxy\n  strategy:", "kedify-proxy\n      a: b\n  strategy:", "KedifyProxyRefused", "selector"},
	} {
		t.Run(name, func(t *testing.T) {
			configureProxy(t, n.Cluster, test.file, test.old, test.text)
			of := n.With(t)
			of.Name = keda.Namespace
			of.AwaitEvent("ConfigMap", proxyConfig, test.reason, test.says)
			if after := deployment(t.Context()).Generation; after != generation {
				t.Errorf("the Deployment has changed: generation %d became %d", generation, after)
			}
		})
	}
	n.Kubectl("delete", "scaledobject", "app")
	awaitProxy(t, n, false)
}

// Whoever has the agent's token can make a kedify-proxy of it, and nothing else. In this
// namespace RBAC lets it do all, so that only the policy is in the way.
func TestPolicyConfinesTheAgent(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Kubectl("create", "rolebinding", "all", "--clusterrole=cluster-admin", "--serviceaccount=keda:kedify-agent")
	config := rest.CopyConfig(n.Config)
	config.Impersonate.UserName = agentUser
	asAgent, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, file string) map[string]any {
		text, err := os.ReadFile("../../../deploy/kedify-proxy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := e2etest.Decode(string(text))
		if err != nil {
			t.Fatal(err)
		}
		objects[0].SetLabels(map[string]string{managedBy: "kedify-agent"})
		return objects[0].Object
	}
	const pod, container = "spec.template.spec.", "spec.template.spec.containers.0."
	for name, test := range map[string]struct {
		resource     schema.GroupVersionResource
		file         string
		field, value string // what is set; nothing without
		want         string // nothing when it is let through
	}{
		"deployment":            {proxyParts[0], "deployment.yaml", "", "", ""},
		"service":               {proxyParts[1], "services.yaml", "", "", ""},
		"configmap":             {proxyParts[2], "configmap.yaml", "", "", ""},
		"serviceaccount":        {proxyParts[3], "serviceaccount.yaml", "", "", ""},
		"poddisruptionbudget":   {proxyParts[4], "poddisruptionbudget.yaml", "", "", ""},
		"networkpolicy":         {proxyParts[5], "networkpolicy.yaml", "", "", ""},
		"mutual TLS":            {proxyParts[0], "deployment.yaml", pod + "volumes.1", `{"name": "drain", "secret": {"secretName": "kedify-proxy-xds"}}`, ""},
		"another name":          {proxyParts[0], "deployment.yaml", "metadata.name", `"other"`, "objects named kedify-proxy"},
		"a ConfigMap of admin":  {proxyParts[2], "configmap.yaml", "metadata.name", `"kedify-proxy-admin"`, "objects named kedify-proxy"},
		"no label":              {proxyParts[0], "deployment.yaml", "metadata.labels", `{}`, "objects with its label"},
		"another image":         {proxyParts[0], "deployment.yaml", container + "image", `"evil"`, "may only run the images"},
		"another first image":   {proxyParts[0], "deployment.yaml", pod + "initContainers.0.image", `"evil"`, "may only run the images"},
		"hostPath":              {proxyParts[0], "deployment.yaml", pod + "volumes.1", `{"name": "drain", "hostPath": {"path": "/"}}`, "only mount"},
		"a Secret":              {proxyParts[0], "deployment.yaml", pod + "volumes.1", `{"name": "drain", "secret": {"secretName": "theirs"}}`, "only mount"},
		"a token":               {proxyParts[0], "deployment.yaml", pod + "volumes.1", `{"name": "drain", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}`, "only mount"},
		"hostNetwork":           {proxyParts[0], "deployment.yaml", pod + "hostNetwork", `true`, "without hostNetwork"},
		"another account":       {proxyParts[0], "deployment.yaml", pod + "serviceAccountName", `"default"`, "serviceAccountName: kedify-proxy"},
		"its account's token":   {proxyParts[0], "deployment.yaml", pod + "automountServiceAccountToken", `true`, "automountServiceAccountToken: false"},
		"root":                  {proxyParts[0], "deployment.yaml", pod + "securityContext", `{}`, "runAsNonRoot: true"},
		"privileged":            {proxyParts[0], "deployment.yaml", container + "securityContext", `{"privileged": true}`, "without privileges"},
		"a capability":          {proxyParts[0], "deployment.yaml", container + "securityContext.capabilities.add", `["NET_ADMIN"]`, "without privileges"},
		"a Secret in env":       {proxyParts[0], "deployment.yaml", container + "env", `[{"name": "S", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]`, "env of values"},
		"a Secret as env":       {proxyParts[0], "deployment.yaml", container + "envFrom", `[{"secretRef": {"name": "a"}}]`, "env of values"},
		"a command":             {proxyParts[0], "deployment.yaml", container + "command", `["sh", "-c", "id"]`, "only run envoy"},
		"a first command":       {proxyParts[0], "deployment.yaml", pod + "initContainers.0.command", `["sh"]`, "only run envoy"},
		"a last command":        {proxyParts[0], "deployment.yaml", container + "lifecycle.preStop.exec.command", `["sh"]`, "only run envoy"},
		"a command in between":  {proxyParts[0], "deployment.yaml", container + "livenessProbe", `{"exec": {"command": ["sh"]}}`, "only run envoy"},
		"another's pods":        {proxyParts[1], "services.yaml", "spec.selector", `{"app": "theirs"}`, "only write selectors"},
		"another's address":     {proxyParts[1], "services.yaml", "spec.externalIPs", `["192.0.2.1"]`, "externalIPs"},
		"all pods' network":     {proxyParts[5], "networkpolicy.yaml", "spec.podSelector", `{}`, "only write selectors"},
		"all pods' disruptions": {proxyParts[4], "poddisruptionbudget.yaml", "spec.selector", `{}`, "only write selectors"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: read(t, test.file)}
			if test.field != "" {
				var value any
				if err := json.Unmarshal([]byte(test.value), &value); err != nil {
					t.Fatal(err)
				}
				set(t, object.Object, strings.Split(test.field, "."), value)
			}
			// Until the API server has the policy, it refuses nothing.
			e2etest.Eventually(t, e2etest.Patience, "an answer that says: "+test.want, func(ctx context.Context) error {
				_, err := asAgent.Resource(test.resource).Namespace(n.Name).Apply(ctx, object.GetName(), object,
					metav1.ApplyOptions{FieldManager: "kedify-agent", Force: true, DryRun: []string{metav1.DryRunAll}})
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					return fmt.Errorf("got: %w", err)
				}
				return nil
			})
		})
	}

	t.Run("what is not its own", func(t *testing.T) {
		n.With(t).Kubectl("create", "configmap", proxy)
		configMaps := asAgent.Resource(proxyParts[2]).Namespace(n.Name)
		_, changed := configMaps.Apply(t.Context(), proxy, &unstructured.Unstructured{Object: read(t, "configmap.yaml")}, metav1.ApplyOptions{FieldManager: "kedify-agent", Force: true})
		deleted := configMaps.Delete(t.Context(), proxy, metav1.DeleteOptions{})
		for _, err := range []error{changed, deleted} {
			if err == nil || !strings.Contains(err.Error(), "objects with its label") {
				t.Errorf("got %v, expected that it is refused", err)
			}
		}
	})
}

// set sets a field of an object; a step of the path may be an index.
func set(t *testing.T, in any, path []string, value any) {
	t.Helper()
	switch in := in.(type) {
	case map[string]any:
		if len(path) == 1 {
			in[path[0]] = value
			return
		}
		set(t, in[path[0]], path[1:], value)
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(path) == 1 {
			in[i] = value
			return
		}
		set(t, in[i], path[1:], value)
	default:
		t.Fatalf("there is no %v in %v", path, in)
	}
}
