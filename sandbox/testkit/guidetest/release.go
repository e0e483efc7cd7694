package guidetest

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Platform is the platform of this machine, as in the names of a release's files.
const Platform = "linux-" + runtime.GOARCH

// MakeRelease makes the manifests of the release v1.2.3, serves them together with the
// sandbox's plugins, as a release does, and returns the URL of their directory.
func MakeRelease(t testing.TB) string {
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
	url := e2etest.Serve(t, http.StripPrefix("/v1.2.3/", http.FileServer(http.Dir(dist)))) + "/v1.2.3"
	e2etest.Shell(t, "make -C "+e2etest.Repository(t, "")+" release-manifests VERSION=v1.2.3 CHECKSUMS="+dist+"/checksums.txt RELEASE_URL="+url+" MANIFESTS="+dist)
	return url
}

// GetFiles runs the first commands of a section of a document, which download the files
// of a release, for the release at a URL and the platform of this machine. It runs them
// in a new directory, which becomes the working directory.
func GetFiles(t testing.TB, url, document, section, next string) {
	t.Helper()
	commands := StepsBetween(t, document, "\n## "+section+"\n", "\n## "+next+"\n")[0].Commands
	for variable, value := range map[string]string{"VERSION": "v1.2.3", "PLATFORM": Platform, "URL": url} {
		commands = regexp.MustCompile(`(?m)^`+variable+`=.*$`).ReplaceAllString(commands, variable+"="+value)
	}
	if !strings.Contains(commands, "\nURL="+url+"\n") || !strings.Contains(commands, "curl") {
		t.Fatalf("%s does not download from $URL:\n%s", document, commands)
	}
	t.Chdir(t.TempDir())
	e2etest.Shell(t, commands)
}
