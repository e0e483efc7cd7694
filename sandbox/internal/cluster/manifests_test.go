package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func names(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, o := range objects {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	return names
}

func TestDecodeManifests(t *testing.T) {
	const a = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	for name, tc := range map[string]struct {
		text string
		want []string
		err  string
	}{
		"one":                   {text: a, want: []string{"ConfigMap/a"}},
		"two, with empty ones":  {text: "---\n# only a comment\n---\n" + a + "---\n\n---\n" + strings.ReplaceAll(a, "name: a", "name: b"), want: []string{"ConfigMap/a", "ConfigMap/b"}},
		"list":                  {text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: s}\n- apiVersion: v1\n  kind: Service\n  metadata: {name: t}\n", want: []string{"Secret/s", "Service/t"}},
		"JSON":                  {text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`, want: []string{"Pod/p"}},
		"empty":                 {text: ""},
		"no kind":               {text: "apiVersion: v1\nmetadata: {name: a}\n", err: "document 1"},
		"no name in the second": {text: a + "---\napiVersion: v1\nkind: Pod\n", err: "document 2"},
		"no YAML":               {text: a + "---\n{[\n", err: "document 2"},
		"a scalar":              {text: "hello\n", err: "document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decodeManifests("file.yaml", []byte(tc.text))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "file.yaml") {
					t.Errorf("error %v, want it to name file.yaml and %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzDecodeManifests(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n"))
	f.Add([]byte("---\n{}\n---\nitems: 3\nkind: x\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := decodeManifests("fuzz", content)
		if err != nil {
			return
		}
		for _, o := range objects {
			if o.GetName() == "" || o.GetKind() == "" {
				t.Errorf("object without name or kind: %v", o.Object)
			}
		}
	})
}

func TestReadManifestDir(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range map[string]string{"b.yaml": "Service", "a.yaml": "Secret", "notes.txt": "Nothing"} {
		content := "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: x}\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readManifestDir(t.Context(), "/no/kubectl/needed", dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Secret/x", "Service/x"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// With a kustomization, kubectl decides, and what it complains about is told.
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	script := "#!/bin/sh\n[ \"$1 $2\" = 'kubectl kustomize' ] && [ -d \"$3\" ] && printf 'apiVersion: v1\\nkind: Pod\\nmetadata: {name: made}\\n'\n"
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err = readManifestDir(t.Context(), kubectl, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Pod/made"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(kubectl, []byte("#!/bin/sh\necho bad base >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err = readManifestDir(t.Context(), kubectl, dir); err == nil || !strings.Contains(err.Error(), "bad base") {
		t.Errorf("a failing kustomize: %v", err)
	}
}

func TestRounds(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, kind := range []string{"Deployment", "ConfigMap", "CustomResourceDefinition", "ClusterRole", "Namespace", "Pod"} {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"kind": kind}})
	}
	var got [3][]string
	for i, round := range rounds(objects) {
		for _, o := range round {
			got[i] = append(got[i], o.GetKind())
		}
	}
	want := [3][]string{{"CustomResourceDefinition", "Namespace"}, {"ConfigMap", "ClusterRole"}, {"Deployment", "Pod"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The sandbox registers its plugin by the template that releases are made from.
func TestRegistration(t *testing.T) {
	objects, err := registration("../../../deploy", "http://releases.sandbox/plugin", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/argo-rollouts-config"}, names(objects)); diff != "" {
		t.Fatalf("objects (-want +got):\n%s", diff)
	}
	if got := objects[0].GetNamespace(); got != rolloutsNamespace {
		t.Errorf("the ConfigMap is in namespace %s", got)
	}
	text, _, err := unstructured.NestedString(objects[0].Object, "data", "trafficRouterPlugins")
	if err != nil {
		t.Fatal(err)
	}
	var plugins []map[string]string
	if err := yaml.Unmarshal([]byte(text), &plugins); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{"name": "kedify/http", "location": "http://releases.sandbox/plugin", "sha256": strings.Repeat("ab", 32)}}
	if diff := cmp.Diff(want, plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestRegistrationWithoutTemplate(t *testing.T) {
	deploy := t.TempDir()
	if _, err := registration(deploy, "http://x", ""); err == nil || !strings.Contains(err.Error(), "--deploy") {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(deploy, "plugin", "argo-rollouts-config.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"applied as it is": "kind: ConfigMap\ndata: {a: '@LOCATION@ @SHA256@'}\n",
		"pins a location":  "# \ntemplate: *x\nkind: ConfigMap\ndata: {a: 'http://elsewhere @SHA256@'}\n",
		"pins a sum":       "# \ntemplate: *x\nkind: ConfigMap\ndata: {a: '@LOCATION@'}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := registration(deploy, "http://x", "ab"); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "expected a template") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
