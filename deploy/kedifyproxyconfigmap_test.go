package deploy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What the agent makes kedify-proxies from is deploy/kedify-proxy, file by file.
func TestAgentHasKedifyProxy(t *testing.T) {
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	readLoosely(t, "kedify-proxy/kustomization.yaml", &kustomization)
	want := map[string]string{}
	for _, file := range kustomization.Resources {
		want[file] = readText(t, "kedify-proxy/"+file)
	}
	var configMap corev1.ConfigMap
	read(t, "agent/configmap-kedify-proxy.yaml", &configMap)
	equal(t, "data (make generate writes them)", want, configMap.Data)
}
