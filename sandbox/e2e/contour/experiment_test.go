package contour

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/canarytest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// While an experiment runs, its pods get their shares of the requests, which are taken
// from stable's share. When it ends, they are off the route.
func TestExperimentWithWeights(t *testing.T) {
	t.Parallel()
	steps := `
- setWeight: 20
- experiment:
    templates:
      - name: baseline
        specRef: stable
        weight: 15
        service: {}
      - name: candidate
        specRef: canary
        weight: 10
        service: {}
- setWeight: 50
- pause: {}
`
	c := startCanary(t, e2etest.App{Steps: steps}, routeManifest)
	c.awaitServed(t)
	before := routeOf(t, c.Namespace, name)
	record := recordWeights(t, c.Namespace, name)
	load := startLoad(t, c.proxy, c.host)
	c.SetImage(name, e2etest.Image("yellow"))
	canarytest.ExperimentServices(t, c.Namespace)
	c.awaitWeights(t, e2etest.Patience, "55/20/15/10")
	load.AwaitShareWithin("yellow", 30, margin) // canary and candidate
	known := time.Now()

	c.endExperiment(t)
	c.AwaitPaused(name, 3)
	requireWeights(t, c.Namespace, name, "50/50")
	load.AwaitShareWithin("yellow", 50, margin)
	c.Abort(name)
	c.AwaitAborted(name)
	awaitRest(t, c.Namespace, before)
	awaitOnly(t, load, "blue")
	// Contour's Envoys may have the route a moment before they have its new Services.
	unknown := func(a traffic.Answer) bool { return a.Status == http.StatusServiceUnavailable && a.Sent.Before(known) }
	load.Finish(unknown, "blue", "yellow")
	record.requireWeights("100/0", "80/20", "55/20/15/10", "80/20", "50/50", "100/0")
}

// endExperiment ends the one experiment of the namespace, as a successful one.
func (c canary) endExperiment(t *testing.T) {
	t.Helper()
	experiments := c.Rollouts.ArgoprojV1alpha1().Experiments(c.Name)
	list, err := experiments.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d experiments, %v; want one", len(list.Items), err)
	}
	_, err = experiments.Patch(t.Context(), list.Items[0].Name, types.MergePatchType, []byte(`{"spec":{"terminate":true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e2etest.Eventually(t, e2etest.Patience, "the experiment is successful", func(ctx context.Context) error {
		experiment, err := experiments.Get(ctx, list.Items[0].Name, metav1.GetOptions{})
		if err == nil && experiment.Status.Phase != v1alpha1.AnalysisPhaseSuccessful {
			err = fmt.Errorf("it is %s: %s", experiment.Status.Phase, experiment.Status.Message)
		}
		return err
	})
}
