package deploy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write testdata/rights.txt as it comes out")

// Who may do what by the manifests of deploy/, and who may connect to what runs, is in
// testdata/rights.txt, so that a review sees each right that is added. go test -update
// writes it.
func TestRights(t *testing.T) {
	var got strings.Builder
	for _, path := range yamlFiles(t, ".") {
		if dir, _, _ := strings.Cut(path, "/"); slices.Contains([]string{"components", "gatewayapi-plugin", "helm", "krew", "plugin"}, dir) {
			continue // patches and templates, which give no rights of their own
		}
		if lines := rights(t, path); len(lines) > 0 {
			fmt.Fprintf(&got, "%s\n  %s\n", filepath.ToSlash(path), strings.Join(lines, "\n  "))
		}
	}
	const file = "testdata/rights.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, file+" (go test -update writes it)", readText(t, file), got.String())
}

// rights are the lines about the objects of a file.
func rights(t *testing.T, path string) []string {
	t.Helper()
	var lines []string
	for _, document := range documents(t, path) {
		var object struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Rules             []rbacv1.PolicyRule `json:"rules"`
			RoleRef           rbacv1.RoleRef      `json:"roleRef"`
			Subjects          []rbacv1.Subject    `json:"subjects"`
		}
		readAny(t, document, &object)
		switch object.Kind {
		case "Role", "ClusterRole":
			for _, rule := range object.Rules {
				lines = append(lines, object.Kind+" "+object.Name+" may "+ruleText(rule))
			}
		case "RoleBinding", "ClusterRoleBinding":
			for _, subject := range object.Subjects {
				lines = append(lines, fmt.Sprintf("%s %s/%s has %s %s%s", subject.Kind, subject.Namespace, subject.Name,
					object.RoleRef.Kind, object.RoleRef.Name, map[string]string{"RoleBinding": " in one namespace"}[object.Kind]))
			}
		case "Deployment", "Job":
			var workload appsv1.Deployment // a Job has the same template
			readAny(t, document, &workload)
			pod := workload.Spec.Template.Spec
			if pod.ServiceAccountName == "" {
				continue // a patch
			}
			token := map[bool]string{true: "with", false: "without"}[pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken]
			lines = append(lines, fmt.Sprintf("pods of %s are ServiceAccount %s, %s its token", object.Kind, pod.ServiceAccountName, token))
		case "NetworkPolicy":
			var policy networkingv1.NetworkPolicy
			readAny(t, document, &policy)
			lines = append(lines, connections(policy, deployment(t, filepath.Dir(path)).Spec.Template)...)
		}
	}
	return lines
}

func ruleText(rule rbacv1.PolicyRule) string {
	group := strings.Join(rule.APIGroups, ", ")
	if group == "" {
		group = "core"
	}
	text := strings.Join(rule.Verbs, ", ") + ": " + strings.Join(rule.Resources, ", ") + " (" + group + ")"
	if len(rule.ResourceNames) > 0 {
		text += " named " + strings.Join(rule.ResourceNames, ", ")
	}
	return text
}

// connections says who reaches which ports of pods that a policy selects; the others are closed.
func connections(policy networkingv1.NetworkPolicy, pods corev1.PodTemplateSpec) []string {
	var lines []string
	for key, value := range policy.Spec.PodSelector.MatchLabels {
		if pods.Labels[key] != value {
			lines = append(lines, "NetworkPolicy does not select the pods")
		}
	}
	if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		lines = append(lines, fmt.Sprintf("NetworkPolicy is for %v", policy.Spec.PolicyTypes))
	}
	for _, rule := range policy.Spec.Ingress {
		var from []string
		for _, peer := range rule.From {
			text := "pods of this namespace"
			if peer.NamespaceSelector != nil {
				text = "pods of namespaces with " + labelsText(peer.NamespaceSelector)
			}
			text += " with " + labelsText(peer.PodSelector)
			if peer.IPBlock != nil { // it has no selectors then
				text = peer.IPBlock.String()
			}
			from = append(from, text)
		}
		if len(from) == 0 {
			from = []string{"anywhere"}
		}
		var ports []string
		for _, port := range rule.Ports {
			ports = append(ports, fmt.Sprintf("%d", containerPort(pods.Spec, port.Port.StrVal)))
		}
		lines = append(lines, "from "+strings.Join(from, " or ")+" to port "+strings.Join(ports, ", "))
	}
	return lines
}

// labelsText is "any labels" for a selector that has none, or is not there.
func labelsText(selector *metav1.LabelSelector) string {
	if text := metav1.FormatLabelSelector(selector); selector != nil && text != "<none>" {
		return text
	}
	return "any labels"
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
