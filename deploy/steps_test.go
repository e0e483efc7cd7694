package deploy_test

import (
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// stepRules are the verbs that the step plugin uses, by the file that grants them.
var stepRules = map[string][]rbacv1.PolicyRule{
	"every-kind": {{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}},
	"http": {
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	},
	"job": {
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "delete"}},
		{APIGroups: []string{"batch"}, Resources: []string{"cronjobs"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	},
	"resource": {{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}}},
	"rollouts": {
		{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	},
}

// What steps may do is granted kind by kind, with a reason for each verb, to the
// ServiceAccount that Argo Rollouts installs, and a release has each of these files.
func TestStepPermissions(t *testing.T) {
	files, err := filepath.Glob("rbac-step/*.yaml")
	if err != nil || len(files) != len(stepRules) {
		t.Fatalf("%q, %v", files, err)
	}
	released := madeRelease(t)
	controller := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "argo-rollouts", Namespace: "argo-rollouts"}}
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(kind, func(t *testing.T) {
			name := map[bool]string{true: "argo-rollouts-step", false: "argo-rollouts-step-" + kind}[kind == "every-kind"]
			var role rbacv1.ClusterRole
			var binding rbacv1.ClusterRoleBinding
			found := documents(t, file)
			for i, into := range []any{&role, &binding} {
				if err := yaml.UnmarshalStrict(found[i], into); err != nil {
					t.Fatal(err)
				}
			}
			equal(t, "role name", name, role.Name)
			equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, binding.RoleRef)
			equal(t, "subjects", controller, binding.Subjects)
			equal(t, "labels", "rollouts-plugin-step", role.Labels["app.kubernetes.io/name"])
			equal(t, "rules", stepRules[kind], role.Rules)
			text, reason := readText(t, file), false
			for line := range strings.Lines(text) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "- ") && !strings.Contains(line, ":") && !reason && line != "- watch" {
					t.Errorf("%s has no reason", line)
				}
				reason = strings.HasPrefix(line, "#") || reason && strings.HasPrefix(line, "- ")
			}
			if !strings.HasSuffix(readText(t, filepath.Join(released, "rbac-step-"+kind+".yaml")), text) {
				t.Errorf("a release does not have %s as it is", file)
			}
		})
	}
}

// Presets are read and watched in the controller's namespace alone.
func TestPermissionForPresets(t *testing.T) {
	found := documents(t, "rbac-step/every-kind.yaml")
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	for i, into := range []any{&role, &binding} {
		if err := yaml.UnmarshalStrict(found[2+i], into); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "namespaces", "argo-rollouts argo-rollouts", role.Namespace+" "+binding.Namespace)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, binding.RoleRef)
	equal(t, "rules", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}}, role.Rules)
}

// A release has the schemas that samples name, as they are.
func TestReleaseHasTheSchemasOfSteps(t *testing.T) {
	files, err := filepath.Glob("schema/*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	released := madeRelease(t)
	for _, file := range files {
		equal(t, file, readText(t, file), readText(t, filepath.Join(released, filepath.Base(file))))
	}
}
