package deploy_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// A region's token reads Rollouts and ReplicaSets, and nothing else.
func TestPermissionsInARegion(t *testing.T) {
	found := documents(t, "rbac-regions/region.yaml")
	var account corev1.ServiceAccount
	var token corev1.Secret
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	for i, into := range []any{&account, &token, &role, &binding} {
		if err := yaml.UnmarshalStrict(found[i], into); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "documents", 4, len(found))
	equal(t, "ServiceAccount of the token", account.Name, token.Annotations[corev1.ServiceAccountNameKey])
	equal(t, "namespaces", account.Namespace, token.Namespace)
	equal(t, "type of the Secret", corev1.SecretTypeServiceAccountToken, token.Type)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.RoleRef)
	equal(t, "subjects", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}}, binding.Subjects)
	equal(t, "rules", []rbacv1.PolicyRule{
		{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	}, role.Rules)
}

// In its own cluster, the controller reads the Secrets that are named, and no other.
func TestPermissionForSecretsOfRegions(t *testing.T) {
	found := documents(t, "rbac-regions/secrets.yaml")
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	for i, into := range []any{&role, &binding} {
		if err := yaml.UnmarshalStrict(found[i], into); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "namespaces", "argo-rollouts argo-rollouts", role.Namespace+" "+binding.Namespace)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, binding.RoleRef)
	equal(t, "subjects", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "argo-rollouts", Namespace: "argo-rollouts"}}, binding.Subjects)
	equal(t, "rules", []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"region-eu", "region-us"}, Verbs: []string{"list", "watch"},
	}}, role.Rules)
}

func TestReleaseHasThePermissionsOfRegions(t *testing.T) {
	files, err := filepath.Glob("rbac-regions/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	released := madeRelease(t)
	for _, file := range files {
		equal(t, file, "# Release v1.2.3 of https://github.com/kedify/argo-rollouts-plugin\n"+readText(t, file),
			readText(t, filepath.Join(released, "rbac-regions-"+filepath.Base(file))))
	}
}
