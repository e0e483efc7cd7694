package kube_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://cluster.example:6443"}}]
users: [{name: a, user: {token: t}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKUBECONFIGComesFirst(t *testing.T) {
	t.Setenv("KUBECONFIG", write(t, "config", kubeconfig))
	// KUBECONFIG counts even inside a pod: it was set on purpose.
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	cfg, err := kube.RESTConfig("program/v1")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://cluster.example:6443" || cfg.BearerToken != "t" {
		t.Errorf("configuration for %s", cfg.Host)
	}
	if cfg.UserAgent != "program/v1" {
		t.Errorf("user agent %q", cfg.UserAgent)
	}
	if cfg.QPS >= 0 {
		t.Errorf("QPS = %v: requests are throttled on the client's side", cfg.QPS)
	}
}

func TestNoClusterIsAnErrorThatSaysWhatToSet(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if cfg, err := kube.RESTConfig("program/v1"); err == nil {
		t.Errorf("a configuration for %s from nowhere", cfg.Host)
	}
	t.Setenv("KUBECONFIG", write(t, "config", "{"))
	if cfg, err := kube.RESTConfig("program/v1"); err == nil {
		t.Errorf("a configuration for %s from a broken file", cfg.Host)
	}
}
