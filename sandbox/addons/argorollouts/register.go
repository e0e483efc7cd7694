package argorollouts

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// configMap is the ConfigMap that lists the controller's plugins.
const configMap = "argo-rollouts-config"

// Register adds the plugins that a ConfigMap lists to those of the controller:
// each key of its data, such as trafficRouterPlugins, holds a list in YAML.
func Register(c *addon.Cluster, plugins *unstructured.Unstructured) error {
	config := c.Find("ConfigMap", Namespace, configMap)
	if config == nil {
		return fmt.Errorf("the manifests of Argo Rollouts have no ConfigMap %s/%s to register a plugin in", Namespace, configMap)
	}
	data, _, err := unstructured.NestedStringMap(config.Object, "data")
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", Namespace, configMap, err)
	}
	added, _, err := unstructured.NestedStringMap(plugins.Object, "data")
	if err != nil {
		return fmt.Errorf("the plugin's ConfigMap: %w", err)
	}
	if data == nil {
		data = make(map[string]string)
	}
	for key, text := range added {
		if data[key], err = appendList(data[key], text); err != nil {
			return fmt.Errorf("ConfigMap %s/%s: data.%s: %w", Namespace, configMap, key, err)
		}
	}
	return unstructured.SetNestedStringMap(config.Object, data, "data")
}

// appendList appends one list in YAML to another.
func appendList(list, more string) (string, error) {
	var have, add []any
	if err := yaml.Unmarshal([]byte(list), &have); err != nil {
		return "", err
	}
	if err := yaml.Unmarshal([]byte(more), &add); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(append(have, add...))
	return string(text), err
}
