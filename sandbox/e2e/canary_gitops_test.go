package e2e

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The ways in which GitOps tools apply what is in git, with the settings that
// docs/guide.md names for them.
var gitOps = map[string]struct {
	services, rest []string // kubectl's flags; nil: made once, and never applied again
	// fights is true where the tool takes the Services' selectors back.
	fights bool
}{
	"Argo CD":                               {services: clientSide, rest: clientSide},
	"Argo CD, server-side but for Services": {services: clientSide, rest: serverSide},
	"Flux, Services made once":              {services: nil, rest: serverSide},
	"server-side with none of the settings": {services: serverSide, rest: serverSide, fights: true},
}

var (
	clientSide = []string{"apply"}
	serverSide = []string{"apply", "--server-side", "--force-conflicts", "--field-manager=gitops"}
)

// TestGitOps has a stand-in apply what is in git every second, all through a
// canary that git starts with a new image.
func TestGitOps(t *testing.T) {
	t.Parallel()
	for name, tool := range gitOps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := e2etest.NewNamespace(t)
			app := e2etest.App{Steps: twoPauses}
			git := &repositoryState{services: app.Services(), rest: e2etest.HTTPScaledObject("app", "app") + app.Rollout()}
			first := tool.services
			if first == nil {
				first = serverSide
			}
			kubectlApply(t.Context(), t, n, first, git.services)
			stop := git.applyAllAlong(t, n, tool.services, tool.rest)
			n.AwaitHealthy("app", e2etest.Image("blue"))
			record := n.Record("app")
			selectors := watchSelectors(t, n)

			yellow := app
			yellow.Image = e2etest.Image("yellow")
			git.set(e2etest.HTTPScaledObject("app", "app") + yellow.Rollout())
			n.AwaitPaused("app", 1)
			git.awaitApplied(t)
			n.AwaitSplit("app", app.Split(20))
			n.Promote("app")
			n.AwaitPaused("app", 3)
			git.awaitApplied(t)
			n.AwaitSplit("app", app.Split(60))
			n.Promote("app")
			n.AwaitHealthy("app", e2etest.Image("yellow"))
			git.awaitApplied(t)
			n.AwaitSplit("app", e2etest.NoSplit)
			stop()
			record.RequireSplits(e2etest.NoSplit, app.Split(20), app.Split(60), app.Split(100), e2etest.NoSplit)
			if lost := selectors(); (lost > 0) != tool.fights {
				t.Errorf("the Services lost the hash in their selectors %d times", lost)
			}
		})
	}
}

// repositoryState is what is in git now.
type repositoryState struct {
	services string
	mu       sync.Mutex
	rest     string
	applied  atomic.Int64
}

func (r *repositoryState) set(rest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = rest
}

func (r *repositoryState) get() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rest
}

// awaitApplied waits until all has been applied twice more, once from beginning
// to end.
func (r *repositoryState) awaitApplied(t *testing.T) {
	t.Helper()
	before := r.applied.Load()
	e2etest.Eventually(t, e2etest.Patience, "git is applied", func(context.Context) error {
		if r.applied.Load() < before+2 {
			return errors.New("not yet")
		}
		return nil
	})
}

// applyAllAlong applies every second until stop is called.
func (r *repositoryState) applyAllAlong(t *testing.T, n *e2etest.Namespace, services, rest []string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			if services != nil {
				kubectlApply(ctx, t, n, services, r.services)
			}
			kubectlApply(ctx, t, n, rest, r.get())
			r.applied.Add(1)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// kubectlApply reports what fails for another reason than the end of ctx.
func kubectlApply(ctx context.Context, t *testing.T, n *e2etest.Namespace, flags []string, manifest string) {
	cmd := exec.CommandContext(ctx, "kubectl", append(flags[:len(flags):len(flags)], "--namespace", n.Name, "-f", "-")...)
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
		t.Errorf("kubectl %s: %v\n%s", strings.Join(flags, " "), err, output)
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
