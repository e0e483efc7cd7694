package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make build builds for Linux on this machine's architecture, and kubectl-canary for this
// machine itself: here for a Mac, which a stand-in for go says it is.
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
		"linux/arm64 rollouts-plugin-kedify", "linux/arm64 rollouts-plugin-gatewayapi", "linux/arm64 rollouts-plugin-step", "linux/arm64 bin/interceptor", "linux/arm64 bin/scaler", "linux/arm64 bin/agent", "darwin/arm64 bin/kubectl-canary",
	}, built)
}

// A release and the images are built with the flags of make build, so that users get the
// programs that are tested.
func TestOneSetOfBuildFlags(t *testing.T) {
	makefile, dockerfile := readText(t, "../Makefile"), readText(t, "../Dockerfile")
	shared := regexp.MustCompile(`(?m)^BUILDFLAGS = (.+)$`).FindStringSubmatch(makefile)
	ofPlugins := regexp.MustCompile(`(?m)^PLUGINFLAGS = (.+) \$\(BUILDFLAGS\)$`).FindStringSubmatch(makefile)
	if shared == nil || ofPlugins == nil {
		t.Fatal("the Makefile has no BUILDFLAGS, or no PLUGINFLAGS")
	}
	// The words of flags, whoever gives the version.
	words := func(flags string) []string {
		flags = strings.NewReplacer("'", "", `"`, "", "$(VERSION)", "$VERSION", "$(COMMIT)", "$COMMIT",
			"v{{ .Version }}", "$VERSION", "{{ .FullCommit }}", "$COMMIT").Replace(flags)
		return slices.Sorted(slices.Values(strings.Fields(flags)))
	}
	var config struct {
		Builds []struct {
			ID      string   `json:"id"`
			Flags   []string `json:"flags"`
			Tags    []string `json:"tags"`
			LDFlags []string `json:"ldflags"`
		} `json:"builds"`
	}
	readLoosely(t, "../.goreleaser.yaml", &config)
	equal(t, "programs of a release", 7, len(config.Builds))
	for _, program := range config.Builds {
		want := shared[1]
		if !slices.Contains([]string{"interceptor", "scaler", "agent"}, program.ID) {
			want += " " + ofPlugins[1]
		}
		// The Makefile and the Dockerfile have -buildvcs=false in GOFLAGS.
		equal(t, "flags of a release of "+program.ID, words(want+" -buildvcs=false"),
			words(strings.Join(program.Flags, " ")+" -tags "+strings.Join(program.Tags, ",")+" -ldflags "+strings.Join(program.LDFlags, " ")))
		image := regexp.MustCompile(`go build (.+) \\\n +-o /` + program.ID + ` `).FindStringSubmatch(dockerfile)
		if image != nil { // not all have one
			equal(t, "flags of an image of "+program.ID, words(want), words(image[1]))
		}
	}
}
