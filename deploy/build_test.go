package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make build builds for the controller's usual platform, linux/amd64, and kubectl-canary
// for the machine that it runs on: here for a Mac, which a stand-in for go says it is.
func TestBuildIsForTheControllerAndThisMachine(t *testing.T) {
	dir := t.TempDir()
	mac := filepath.Join(dir, "go")
	const script = `#!/bin/sh
case "$1 $2" in
"env GOHOSTOS") echo darwin ;;
"env GOHOSTARCH") echo arm64 ;;
*) echo "$GOOS/$GOARCH $*" >>"$(dirname "$0")/calls" ;;
esac
`
	if err := os.WriteFile(mac, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "make", "-C", "..", "build", "GO="+mac).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var built []string
	for line := range strings.Lines(readText(t, filepath.Join(dir, "calls"))) {
		words := strings.Fields(line)
		i := slices.Index(words, "-o")
		if i < 0 || words[1] != "build" {
			t.Fatalf("go is called so: %s", line)
		}
		built = append(built, words[0]+" "+words[i+1])
	}
	equal(t, "programs", []string{
		"linux/amd64 rollouts-plugin-kedify", "linux/amd64 rollouts-plugin-gatewayapi", "linux/amd64 rollouts-plugin-step", "linux/amd64 bin/interceptor", "linux/amd64 bin/scaler", "linux/amd64 bin/agent", "darwin/arm64 bin/kubectl-canary",
	}, built)
}
