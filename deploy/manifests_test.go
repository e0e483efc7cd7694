package deploy_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// Every YAML file is valid: each of its documents can be read, without duplicate keys,
// and names a kind. Templates are left out: the files that a release makes of them are
// checked instead.
func TestEveryManifestReads(t *testing.T) {
	for _, root := range []string{".", "../examples", "../sandbox/manifests", "../sandbox/addons", madeRelease(t)} {
		for _, path := range yamlFiles(t, root) {
			if templates[path] != "" || strings.HasPrefix(filepath.Base(path), "argo-rollouts-values-") {
				continue
			}
			t.Run(filepath.ToSlash(path), func(t *testing.T) {
				for i, document := range documents(t, path) {
					if isJSONPatch(document) {
						continue
					}
					object := map[string]any{}
					if err := yaml.UnmarshalStrict(document, &object); err != nil {
						t.Fatalf("document %d: %v", i+1, err)
					}
					for _, key := range []string{"apiVersion", "kind"} {
						if text, _ := object[key].(string); text == "" {
							t.Errorf("document %d has no %s", i+1, key)
						}
					}
				}
			})
		}
	}
}

// isJSONPatch says whether a document is a JSON patch (RFC 6902), as a
// kustomization takes one: a list of operations, each on a path.
func isJSONPatch(document []byte) bool {
	var operations []struct{ Op, Path string }
	if yaml.Unmarshal(document, &operations) != nil || len(operations) == 0 {
		return false
	}
	for _, o := range operations {
		if o.Op == "" || !strings.HasPrefix(o.Path, "/") {
			return false
		}
	}
	return true
}

// Each kustomization names exactly the files beside it: none that is missing,
// and none is left out. Another kustomization that it includes exists here.
func TestEveryKustomizationIsComplete(t *testing.T) {
	var found int
	for _, root := range []string{".", "../examples"} {
		for _, path := range yamlFiles(t, root) {
			if filepath.Base(path) != "kustomization.yaml" {
				continue
			}
			found++
			t.Run(filepath.ToSlash(path), func(t *testing.T) {
				var kustomization struct {
					Resources []string `json:"resources"`
					Patches   []struct {
						Path string `json:"path"`
					} `json:"patches"`
				}
				// Only these keys matter here.
				readLoosely(t, path, &kustomization)
				named := map[string]bool{filepath.Base(path): true}
				for _, resource := range kustomization.Resources {
					if strings.HasPrefix(resource, "../") {
						readText(t, filepath.Join(filepath.Dir(path), resource, "kustomization.yaml"))
						continue
					}
					named[resource] = true
				}
				for _, patch := range kustomization.Patches {
					if patch.Path != "" { // otherwise the patch is inline
						named[patch.Path] = true
					}
				}
				beside := map[string]bool{}
				for _, file := range yamlFiles(t, filepath.Dir(path)) {
					beside[filepath.Base(file)] = true
				}
				if diff := cmp.Diff(beside, named); diff != "" {
					t.Errorf("-in the directory +named:\n%s", diff)
				}
			})
		}
	}
	if found == 0 {
		t.Error("no kustomization found")
	}
}

// The permission has exactly the guide's verbs, for the ServiceAccount that Argo Rollouts
// installs; the minimal permission is a part of it.
func TestPermissions(t *testing.T) {
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	read(t, "rbac/clusterrole.yaml", &role)
	read(t, "rbac/clusterrolebinding.yaml", &binding)
	rules := func(verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{"http.keda.sh"}, Resources: []string{"httpscaledobjects"}, Verbs: verbs}}
	}
	equal(t, "rules", rules("get", "list", "watch", "patch", "update"), role.Rules)
	equal(t, "role name", "argo-rollouts-kedify-http", role.Name)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.RoleRef)
	controller := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "argo-rollouts", Namespace: "argo-rollouts"}}
	equal(t, "subjects", controller, binding.Subjects)

	var minimal rbacv1.Role
	var minimalBinding rbacv1.RoleBinding
	read(t, "rbac-minimal/role.yaml", &minimal)
	read(t, "rbac-minimal/rolebinding.yaml", &minimalBinding)
	equal(t, "minimal rules", rules("get", "list", "watch", "patch"), minimal.Rules)
	equal(t, "minimal role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: minimal.Name}, minimalBinding.RoleRef)
	equal(t, "minimal subjects", controller, minimalBinding.Subjects)
	// kubectl -n decides the namespace of both.
	equal(t, "minimal namespaces", "", minimal.Namespace+minimalBinding.Namespace)
}

// Each verb of the Gateway API router's permission is one that it uses, on the routes
// of all of its kinds, for the ServiceAccount that Argo Rollouts installs.
func TestGatewayAPIPermissions(t *testing.T) {
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	read(t, "gatewayapi/clusterrole.yaml", &role)
	read(t, "gatewayapi/clusterrolebinding.yaml", &binding)
	var routes []string
	for _, kind := range gatewayapi.Kinds {
		routes = append(routes, strings.ToLower(string(kind))+"s")
	}
	equal(t, "rules", []rbacv1.PolicyRule{
		{APIGroups: []string{gatewayapi.Group}, Resources: routes, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{gatewayapi.Group}, Resources: []string{"referencegrants"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
		{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}, role.Rules)
	equal(t, "role name", "argo-rollouts-gatewayapi", role.Name)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.RoleRef)
	equal(t, "subjects", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "argo-rollouts", Namespace: "argo-rollouts"}}, binding.Subjects)
}

// An init container copies a plugin out of its image to the file that the location of the
// registration names, which is not the file that the controller copies the plugin to.
func TestInitContainersCopyPlugins(t *testing.T) {
	var local corev1.ConfigMap
	read(t, "local/argo-rollouts-config-patch.yaml", &local)
	makefile, dockerfile := readText(t, "../Makefile"), readText(t, "../Dockerfile")
	for dir, want := range map[string]struct{ program, imageVariable, location string }{
		"local": {"/rollouts-plugin-kedify", "IMG    ?= ", registered(t, local).Location},
		"step":  {"/rollouts-plugin-step", "STEP_IMG ?= ", locationInStepsPage(t, "/home/argo-rollouts/plugin-bin/")},
	} {
		t.Run(dir, func(t *testing.T) {
			var deployment appsv1.Deployment
			read(t, dir+"/deployment-patch.yaml", &deployment)
			containers := deployment.Spec.Template.Spec.InitContainers
			if len(containers) != 1 {
				t.Fatalf("%d init containers, want 1", len(containers))
			}
			container := containers[0]
			const pluginBin = "/home/argo-rollouts/plugin-bin"
			// In pluginBin, but in none of the directories where the controller has its copies.
			target := pluginBin + want.program
			equal(t, "command", []string{"cp", want.program, target}, container.Command)
			equal(t, "location", "file://"+target, want.location)
			equal(t, "mounts", []corev1.VolumeMount{{Name: "plugin-bin", MountPath: pluginBin}}, container.VolumeMounts)
			if user := container.SecurityContext.RunAsUser; user == nil || *user != 999 {
				t.Errorf("runs as %v, want 999, the controller's user", user)
			}
			if line := want.imageVariable + container.Image + "\n"; !strings.Contains(makefile, line) {
				t.Errorf("the Makefile does not make %s by default", container.Image)
			}
			if line := "COPY --from=build " + want.program + " " + want.program + "\n"; !strings.Contains(dockerfile, line) {
				t.Errorf("the Dockerfile does not put the plugin at %s", want.program)
			}
		})
	}
}

// locationInStepsPage returns the one file:// location in a directory that the
// registrations of docs/steps-admin.md have.
func locationInStepsPage(t *testing.T, dir string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +location: file://`+dir+`\S+$`).FindAllString(readText(t, "../docs/steps-admin.md"), -1)
	for i, line := range found {
		found[i] = strings.TrimPrefix(strings.TrimSpace(line), "location: ")
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		t.Fatalf("docs/steps-admin.md has registrations with %q, want one location in %s", found, dir)
	}
	return found[0]
}

// registered returns the one traffic router that a ConfigMap registers.
func registered(t *testing.T, configMap corev1.ConfigMap) types.PluginItem {
	t.Helper()
	var entries []types.PluginItem
	if err := yaml.UnmarshalStrict([]byte(configMap.Data["trafficRouterPlugins"]), &entries); err != nil {
		t.Fatalf("trafficRouterPlugins: %v", err)
	}
	if len(entries) != 1 {
		t.Fatalf("trafficRouterPlugins has %d entries, want 1", len(entries))
	}
	return entries[0]
}

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// yamlFiles lists the YAML files under root, but for test data.
func yamlFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "testdata" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no YAML under %s", root)
	}
	return files
}

// documents splits a YAML file at its separators; at least one is not empty.
func documents(t *testing.T, path string) [][]byte {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(readText(t, path))))
	var found [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var content any
		if yaml.Unmarshal(document, &content) == nil && content == nil {
			continue // comments only
		}
		found = append(found, document)
	}
	if len(found) == 0 {
		t.Fatalf("%s is empty", path)
	}
	return found
}

// read decodes a YAML file of one document into a Go type, with no key that
// the type does not have.
func read(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(readText(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// readLoosely decodes the keys of a YAML file that a Go type has.
func readLoosely(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readText(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
