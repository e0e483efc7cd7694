package steps

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
)

// page is the document that says how to take the program from an image.
const page = "docs/how-to/step-admin.md"

// By the page's commands and registrations, the program comes first with the
// controller's image, and then from its own image by an init container. The controller
// starts without downloading it, and a canary goes through a step. Afterwards the
// installation is as it was.
func TestProgramOutOfAnImage(t *testing.T) {
	before := controllertest.KeepTemplate(t)
	registered := controllertest.KeepStepPlugins(t)
	guidetest.UseRelease(t)
	guidetest.Run(t, page, []string{"download", "grant"})

	// In this order each pod has the program that the ConfigMap registers, without a
	// restart for each command.
	register(t, "from-own-image")
	guidetest.Run(t, page, []string{"own-image"})
	requireProgramFrom(t, "/plugins/rollouts-plugin-step")
	register(t, "from-init-container")
	guidetest.Run(t, page, []string{"init-container"})
	e2etest.Shell(t, "kubectl -n argo-rollouts set image deploy/argo-rollouts argo-rollouts="+before.Spec.Containers[0].Image)
	requireProgramFrom(t, "/home/argo-rollouts/plugin-bin/rollouts-plugin-step")

	controllertest.SetStepPlugins(t, registered)
	guidetest.Run(t, page, []string{"init-container-removal"})
	e2etest.Shell(t, controllertest.StatusCommand)
	controllertest.Await(t)
	if diff := cmp.Diff(before.Spec, controllertest.Template(t).Spec); diff != "" {
		t.Errorf("the controller's pods are not what they were (-before +now):\n%s", diff)
	}
}

// register puts the page's registrations of a name into the ConfigMap.
func register(t *testing.T, registrations string) {
	t.Helper()
	var shown struct {
		StepPlugins string `json:"stepPlugins"`
	}
	if err := yaml.UnmarshalStrict([]byte(guidetest.YAML(t, page, registrations)), &shown); err != nil {
		t.Fatal(err)
	}
	controllertest.SetStepPlugins(t, shown.StepPlugins)
}

// requireProgramFrom waits for the controller, checks that it has taken the program from a
// file, and that a canary goes through a step.
func requireProgramFrom(t *testing.T, file string) {
	t.Helper()
	e2etest.Shell(t, controllertest.StatusCommand)
	log := controllertest.AwaitLog(t, controllertest.Await(t), "Copied plugin from "+file+" to "+program)
	if strings.Contains(log, "Downloading plugin kedify/step") {
		t.Errorf("the controller has downloaded the program:\n%s", e2etest.LinesWith(log, "plugin"))
	}
	// There are no other Rollouts, so the step succeeds at once.
	n := startOne(t, "- plugin: {name: kedify/step, config: {rollouts: {selector: {}, min: 0}}}\n- pause: {}", "")
	n.AwaitStep("app", 0, v1alpha1.StepPluginPhaseSuccessful)
	n.Promote("app")
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	controllertest.Process(t, program)
}
