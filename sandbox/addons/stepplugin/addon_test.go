package stepplugin

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
)

// The controller's image with the plugin equals the one that the Dockerfile in
// docs/how-to/step-admin.md makes.
func TestControllerImageIsThatOfTheDockerfile(t *testing.T) {
	document, err := os.ReadFile("../../../docs/how-to/step-admin.md")
	if err != nil {
		t.Fatal(err)
	}
	fences, err := page.Parse(string(document))
	if err != nil {
		t.Fatal(err)
	}
	shown := slices.IndexFunc(fences, func(f page.Fence) bool { return f.Language == "dockerfile" })
	if shown < 0 {
		t.Fatal("docs/how-to/step-admin.md shows no Dockerfile")
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
	if diff := cmp.Diff(want, fences[shown].Text); diff != "" {
		t.Errorf("(-image +Dockerfile):\n%s", diff)
	}
	if !strings.Contains(string(document), "="+controllers.Repository+":"+argorollouts.Version+"-steps\n") {
		t.Errorf("docs/how-to/step-admin.md does not run %s", controllers.Repository)
	}
}
