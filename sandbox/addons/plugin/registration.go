package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

// registration is the template in deploy/plugin with a plugin's location and
// SHA-256 filled in, as hack/release-manifests.sh does it.
func registration(deploy, location, sha256 string) (*unstructured.Unstructured, error) {
	path := filepath.Join(deploy, "plugin", "argo-rollouts-config.yaml")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the plugin's registration: %w: pass the repository's deploy directory with --deploy", err)
	}
	// What comes first keeps the template from being applied as it is.
	_, text, found := strings.Cut(string(content), "\ntemplate: ")
	_, text, ended := strings.Cut(text, "\n")
	if !found || !ended || !strings.Contains(text, "@LOCATION@") || !strings.Contains(text, "@SHA256@") {
		return nil, fmt.Errorf("%s: expected a template: a line \"template: …\", and after it @LOCATION@ and @SHA256@", path)
	}
	objects, err := manifest.Decode(path, []byte(strings.NewReplacer("@LOCATION@", location, "@SHA256@", sha256).Replace(text)))
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 || objects[0].GetKind() != "ConfigMap" {
		return nil, fmt.Errorf("%s: expected one ConfigMap", path)
	}
	return objects[0], nil
}
