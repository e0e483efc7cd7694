package argorollouts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

// RegisterAsset registers a plugin's program that the releases server offers as asset, by
// the template in a directory of deploy/: with its location and SHA-256 filled in.
func RegisterAsset(c *addon.Cluster, template, program, asset string) error {
	sum, err := addon.SHA256(c.Paths[program])
	if err != nil {
		return err
	}
	plugins, err := registration(filepath.Join(c.Deploy, template, "argo-rollouts-config.yaml"), c.Releases+"/"+asset, sum)
	if err != nil {
		return err
	}
	return Register(c, plugins)
}

// registration is a template of a registration with a plugin's location and SHA-256
// filled in, as hack/release/manifests.sh does it.
func registration(path, location, sha256 string) (*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the plugin's registration: %w: pass the repository's deploy directory with --deploy", err)
	}
	// The text before keeps the template from being applied unchanged.
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
