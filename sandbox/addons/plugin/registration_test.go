package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
)

// The sandbox registers its plugin by the template that releases are made from.
func TestRegistration(t *testing.T) {
	object, err := registration("../../../deploy", "http://releases.sandbox/plugin", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if object.GetName() != "argo-rollouts-config" || object.GetNamespace() != argorollouts.Namespace {
		t.Errorf("the ConfigMap is %s/%s", object.GetNamespace(), object.GetName())
	}
	text, _, err := unstructured.NestedString(object.Object, "data", "trafficRouterPlugins")
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
