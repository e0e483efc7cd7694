package argorollouts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The sandbox registers each plugin by its template in deploy/.
func TestRegistration(t *testing.T) {
	for template, name := range map[string]string{"plugin": "kedify/http", "gatewayapi-plugin": "argoproj-labs/gatewayAPI"} {
		t.Run(template, func(t *testing.T) { testRegistration(t, template, name) })
	}
}

func testRegistration(t *testing.T, template, name string) {
	object, err := registration(filepath.Join("../../../deploy", template, "argo-rollouts-config.yaml"), "http://releases.sandbox/plugin", strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if object.GetName() != "argo-rollouts-config" || object.GetNamespace() != Namespace {
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
	want := []map[string]string{{"name": name, "location": "http://releases.sandbox/plugin", "sha256": strings.Repeat("ab", 32)}}
	if diff := cmp.Diff(want, plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestRegistrationWithoutTemplate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "argo-rollouts-config.yaml")
	if _, err := registration(path, "http://x", ""); err == nil || !strings.Contains(err.Error(), "--deploy") {
		t.Errorf("no file: %v", err)
	}
	for name, text := range map[string]string{
		"applied as it is": "kind: ConfigMap\ndata: {a: '@LOCATION@ @SHA256@'}\n",
		"pins a location":  "# \ntemplate: *x\nkind: ConfigMap\ndata: {a: 'http://elsewhere @SHA256@'}\n",
		"pins a sum":       "# \ntemplate: *x\nkind: ConfigMap\ndata: {a: '@LOCATION@'}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := registration(path, "http://x", "ab"); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "expected a template") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
