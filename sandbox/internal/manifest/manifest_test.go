package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func names(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, o := range objects {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	return names
}

func TestDecode(t *testing.T) {
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
			got, err := Decode("file.yaml", []byte(tc.text))
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

func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n"))
	f.Add([]byte("---\n{}\n---\nitems: 3\nkind: x\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := Decode("fuzz", content)
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

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range map[string]string{"b.yaml": "Service", "a.yaml": "Secret", "notes.txt": "Nothing"} {
		content := "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: x}\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadDir(t.Context(), "/no/kubectl/needed", dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Secret/x", "Service/x"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// With a kustomization, kubectl makes the objects, and the error has what kubectl
	// complains about.
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	script := "#!/bin/sh\n[ \"$1 $2\" = 'kubectl kustomize' ] && [ -d \"$3\" ] && printf 'apiVersion: v1\\nkind: Pod\\nmetadata: {name: made}\\n'\n"
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadDir(t.Context(), kubectl, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Pod/made"}, names(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(kubectl, []byte("#!/bin/sh\necho bad base >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err = ReadDir(t.Context(), kubectl, dir); err == nil || !strings.Contains(err.Error(), "bad base") {
		t.Errorf("a failing kustomize: %v", err)
	}
}
