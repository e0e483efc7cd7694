package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/gitopstest"
)

// The ways in which GitOps tools apply manifests from git, with the settings that
// docs/how-to/gitops.md names for them.
var gitOps = map[string]struct {
	services, rest []string // kubectl's flags; nil: created once and never applied again
	// fights is true if the tool removes the hash from the Services' selectors.
	fights bool
}{
	"Argo CD":                               {services: gitopstest.ClientSide, rest: gitopstest.ClientSide},
	"Argo CD, server-side but for Services": {services: gitopstest.ClientSide, rest: serverSide},
	"Flux, Services made once":              {services: nil, rest: serverSide},
	"server-side with none of the settings": {services: serverSide, rest: serverSide, fights: true},
}

var serverSide = gitopstest.ServerSide("gitops")

// TestGitOps has a stand-in for a GitOps tool apply the manifests every second,
// throughout a canary that a new image in git starts.
func TestGitOps(t *testing.T) {
	t.Parallel()
	for name, tool := range gitOps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			app := e2etest.App{Steps: twoPauses}
			var rest gitopstest.Changing
			rest.Set(e2etest.HTTPScaledObject("app", "app") + app.Rollout())
			parts := []gitopstest.Part{rest.Part(tool.rest)}
			if tool.services == nil {
				gitopstest.Fixed(serverSide, app.Services()).Apply(t, n)
			} else {
				parts = append([]gitopstest.Part{gitopstest.Fixed(tool.services, app.Services())}, parts...)
				parts[0].Apply(t, n)
			}
			git := gitopstest.Start(t, n, parts...)
			n.AwaitHealthy("app", e2etest.Image("blue"))
			record := n.Record("app")
			selectors := watchSelectors(t, n)

			yellow := app
			yellow.Image = e2etest.Image("yellow")
			rest.Set(e2etest.HTTPScaledObject("app", "app") + yellow.Rollout())
			n.AwaitPaused("app", 1)
			git.AwaitRounds(t, 2) // the second round began after the pause
			n.AwaitSplit("app", app.Split(20))
			n.Promote("app")
			n.AwaitPaused("app", 3)
			git.AwaitRounds(t, 2)
			n.AwaitSplit("app", app.Split(60))
			n.Promote("app")
			n.AwaitHealthy("app", e2etest.Image("yellow"))
			git.AwaitRounds(t, 2)
			n.AwaitSplit("app", e2etest.NoSplit)
			git.Stop()
			record.RequireSplits(e2etest.NoSplit, app.Split(20), app.Split(60), app.Split(100), e2etest.NoSplit)
			if lost := selectors(); (lost > 0) != tool.fights {
				t.Errorf("the Services lost the hash in their selectors %d times", lost)
			}
		})
	}
}

// watchSelectors counts, until the returned function is called, the states of
// the Services whose selector lacks the hash of a ReplicaSet.
func watchSelectors(t *testing.T, n *e2etest.Namespace) (lost func() int) {
	t.Helper()
	list, err := n.Kube.CoreV1().Services(n.Name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := n.Kube.CoreV1().Services(n.Name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	count := make(chan int, 1)
	go func() {
		without := 0
		for event := range w.ResultChan() {
			if service, ok := event.Object.(*corev1.Service); ok && service.Spec.Selector["rollouts-pod-template-hash"] == "" {
				without++
			}
		}
		count <- without
	}()
	return func() int {
		w.Stop()
		return <-count
	}
}
