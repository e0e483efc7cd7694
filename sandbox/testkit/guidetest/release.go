package guidetest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const version = "v1.2.3"

// makeRelease makes the manifests of a release, serves them together with the sandbox's
// plugins, as a release does, and returns the URL of their directory.
func makeRelease(t testing.TB) string {
	t.Helper()
	layout, err := cluster.InsideLayout()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(layout.Releases(), "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	// The sandbox has plugins for its own platform alone, and not all of them.
	text := string(sums)
	dist := t.TempDir()
	for _, plugin := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin"} {
		for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
			asset := plugin + "-" + platform
			if !strings.Contains(text, "  "+asset+"\n") {
				text += controllertest.OtherSHA256 + "  " + asset + "\n"
			} else if err := os.Symlink(filepath.Join(layout.Releases(), asset), filepath.Join(dist, asset)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"} {
		text += controllertest.OtherSHA256 + "  kubectl-canary-" + platform + ".tar.gz\n"
	}
	if err := os.WriteFile(filepath.Join(dist, "checksums.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url := e2etest.Serve(t, http.StripPrefix("/"+version+"/", http.FileServer(http.Dir(dist)))) + "/" + version
	e2etest.Shell(t, "make -C "+e2etest.Repository(t, "")+" release-manifests VERSION="+version+" CHECKSUMS="+dist+"/checksums.txt RELEASE_URL="+url+" MANIFESTS="+dist)
	return url
}

// UseRelease makes a release, and the test a reader of the pages who has chosen it, for
// this machine's platform: its variables have values, and the working directory is a new
// one. It returns the URL of the release's files.
func UseRelease(t *testing.T) string {
	t.Helper()
	url := makeRelease(t)
	t.Setenv("VERSION", version)
	t.Setenv("PLATFORM", sourceguide.Platform)
	t.Setenv("URL", url)
	t.Chdir(t.TempDir())
	return url
}
