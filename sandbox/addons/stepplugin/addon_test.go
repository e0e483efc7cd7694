package stepplugin

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
)

// The controller's image with the plugin equals the one that the Dockerfile in
// docs/steps-admin.md makes.
func TestControllerImageIsThatOfTheDockerfile(t *testing.T) {
	document, err := os.ReadFile("../../../docs/steps-admin.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)\n```dockerfile\n(.*?\n)```\n").FindStringSubmatch(string(document))
	if shown == nil {
		t.Fatal("docs/steps-admin.md shows no Dockerfile")
	}
	own, controllers := images[0], images[1]
	want := "FROM " + controllers.From + ":" + argorollouts.Version + "\n"
	for to, program := range controllers.Image.Files {
		for from, there := range own.Image.Files {
			if there == program {
				want += "COPY --from=" + own.Repository + ":vX.Y.Z " + from + " " + to + "\n"
			}
		}
	}
	if diff := cmp.Diff(want, shown[1]); diff != "" {
		t.Errorf("(-image +Dockerfile):\n%s", diff)
	}
	if !strings.Contains(string(document), "="+controllers.Repository+":"+argorollouts.Version+"-steps\n") {
		t.Errorf("docs/steps-admin.md does not run %s", controllers.Repository)
	}
}
