package envoytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Version is the version of Envoy that the tests are meant for.
const Version = "1.40.0"

// Path returns the path of the Envoy to test with: the environment variable ENVOY, else
// the pinned one that `make envoy` downloads, else envoy on PATH. If there is none, the
// test is skipped, or fails if the environment variable CI is set.
func Path(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("ENVOY"); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			t.Fatalf("environment variable ENVOY: %v; expected the path of an Envoy", err)
		}
		return path
	}
	var candidates []string
	if cache, err := os.UserCacheDir(); err == nil {
		candidates = append(candidates, filepath.Join(cache, "rollouts-sandbox", "envoy-"+Version, "envoy"))
	}
	candidates = append(candidates, "envoy")
	for _, candidate := range candidates {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("there is no Envoy; expected one in %v, or in the environment variable ENVOY", candidates)
	}
	t.Skipf("there is no Envoy in %v, nor in the environment variable ENVOY", candidates)
	return ""
}
