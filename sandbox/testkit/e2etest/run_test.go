package e2etest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("plugin", nil, 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PLUGIN", "plugin")
	if got, err := program("PLUGIN", "rollouts-plugin-kedify"); err != nil || !filepath.IsAbs(got) || filepath.Base(got) != "plugin" {
		t.Errorf("PLUGIN=plugin: %q, %v; want its absolute path", got, err)
	}
	for _, path := range []string{"missing", dir} {
		t.Setenv("PLUGIN", path)
		if got, err := program("PLUGIN", "rollouts-plugin-kedify"); err == nil || !strings.Contains(err.Error(), "make build") {
			t.Errorf("PLUGIN=%s: %q, %v; want an error that says how to make one", path, got, err)
		}
	}

	// A repository: the directory that holds sandbox/go.mod.
	if err := os.Mkdir("sandbox", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("sandbox/go.mod", []byte("module github.com/kedify/argo-rollouts-plugin/sandbox\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PLUGIN", "")
	if got, err := program("PLUGIN", "rollouts-plugin-kedify"); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "rollouts-plugin-kedify")) {
		t.Errorf("without PLUGIN, not built: %q, %v; want an error that names where it should be", got, err)
	}
	if err := os.WriteFile("rollouts-plugin-kedify", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := program("PLUGIN", "rollouts-plugin-kedify"); err != nil || got != filepath.Join(dir, "rollouts-plugin-kedify") {
		t.Errorf("without PLUGIN: %q, %v; want what make build makes", got, err)
	}
}
