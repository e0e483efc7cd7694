package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/guidetest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	// tutorial is the page that the test plays.
	tutorial = "docs/tutorials/kedify.md"

	// guideRate is how many requests a second there are. At 5 for each pod they take 4.
	guideRate, guidePods = 18, 4
)

// TestTutorial runs the commands of docs/tutorials/kedify.md, as a reader does: each prints
// the output that the page shows below it. (The demo runs the guide that the page follows,
// with the sample as that guide prints it.) Requests come from the first answer of the
// Ingress to after the removal of the ScaledObject; none fails. In the end, plugin and agent
// are uninstalled, as docs/how-to/install.md says.
//
// It is not parallel: it restarts the controller, and uninstalls what other tests need.
func TestTutorial(t *testing.T) {
	w := newWalk(t)
	n := e2etest.AdoptNamespace(t, sourceguide.Namespace)
	const name = sourceguide.Name

	w.do(tutorial, "files", "install", "restart", "restarted")
	controllertest.Await(t)
	w.do(tutorial, "manifests", "deploy")
	w.Address = awaitIngress(t, n)
	load := traffictest.StartParallelLoadAt(t, traffictest.Proxy{Name: "ingress", Address: net.JoinHostPort(w.Address, "80")}, sourceguide.Host, guideRate)
	w.do(tutorial, "look")
	awaitBackend(t, n, "kedify-proxy:8080")
	n.AwaitRollout(name, "pods follow the requests", func(ro *v1alpha1.Rollout) error {
		if ro.Status.AvailableReplicas != guidePods {
			return fmt.Errorf("%d pods are available at %d requests a second, want %d", ro.Status.AvailableReplicas, guideRate, guidePods)
		}
		return nil
	})
	record := n.Record(name)

	w.do(tutorial, "start", "watch", "split", "count")
	w.requireClusters("rollouts-demo-stable", "rollouts-demo-canary")
	w.lookAtProxies()

	w.do(tutorial, "promote")
	n.AwaitPaused(name, 3)
	n.RequireSplit(name, checktest.SampleSplit(50))
	w.do(tutorial, "promote") // "A second `promote` skips the wait."
	n.AwaitPaused(name, 5)
	n.RequireSplit(name, checktest.SampleSplit(80))
	n.AwaitHealthy(name, e2etest.Image("yellow")) // The pause ends by itself.
	n.AwaitSplit(name, e2etest.NoSplit)

	n.SetImage(name, e2etest.Image("blue"))
	n.AwaitPaused(name, 1)
	w.do(tutorial, "abort")
	n.AwaitAborted(name)
	n.AwaitSplit(name, e2etest.NoSplit)
	record.RequireSplits(e2etest.NoSplit, checktest.SampleSplit(20), checktest.SampleSplit(50), checktest.SampleSplit(80), checktest.SampleSplit(100), e2etest.NoSplit,
		checktest.SampleSplit(20), e2etest.NoSplit)
	load.RequireOnly("yellow")
	w.do(tutorial, "log", "log-plugin", "clusters", "endpoints", "events")
	w.requireClusters("rollouts-demo-stable")

	n.Kubectl("delete", "scaledobject", name)
	awaitBackend(t, n, "rollouts-demo-stable:80")
	e2etest.Shell(t, "kubectl -n rollouts-demo wait --for=delete httpso/rollouts-demo --timeout=110s")
	load.RequireOnly("yellow")
	load.Finish(nil, "blue", "yellow")

	w.do(tutorial, "clean")
	w.uninstall()
}

// walk runs commands of pages, in a directory with the files that they name.
type walk struct {
	sourceguide.Walk
	t *testing.T
}

// newWalk chooses a release. What the walk uninstalls is put back when the test ends.
func newWalk(t *testing.T) *walk {
	t.Helper()
	// The sandbox has been installed, and the directory is a clone's as far as it matters.
	guidetest.RequireNames(t, tutorial, "sandbox", "files", "all", "install", "restart", "restarted", "clone",
		"manifests", "deploy", "look", "start", "watch", "split", "count", "promote", "abort",
		"log", "log-plugin", "clusters", "endpoints", "events", "clean")
	controllertest.KeepConfig(t)
	controllertest.KeepAccess(t)
	t.Cleanup(func() {
		for _, line := range []string{
			"kubectl apply --server-side --force-conflicts -k " + e2etest.Repository(t, "deploy", "agent"),
			"kubectl -n keda rollout status deployment/kedify-agent --timeout=110s",
		} {
			if _, err := e2etest.TryShell(context.Background(), line); err != nil {
				t.Errorf("putting the agent back: %v", err)
			}
		}
	})
	guidetest.UseRelease(t)
	if err := os.CopyFS("examples", os.DirFS(e2etest.Repository(t, "examples"))); err != nil {
		t.Fatal(err)
	}
	controllertest.SetConfig(t, `{"trafficRouterPlugins":null}`)
	e2etest.Shell(t, "kubectl delete clusterrole,clusterrolebinding "+e2etest.PluginClusterRole)
	return &walk{t: t, Walk: sourceguide.Walk{Dir: "."}}
}

// do runs commands of a page, by their names.
func (w *walk) do(document string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		s := guidetest.Step(w.t, document, name)
		printed, err := w.Do(w.t.Context(), s)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Logf("%s%s", s.Commands, printed)
	}
}

// requireClusters runs the command that looks at kedify-proxy's configuration: it prints
// a cluster for each of these Services, and for no other.
func (w *walk) requireClusters(services ...string) {
	w.t.Helper()
	step := guidetest.Step(w.t, tutorial, "clusters")
	e2etest.Eventually(w.t, e2etest.Patience, "clusters of kedify-proxy", func(ctx context.Context) error {
		printed, err := w.Do(ctx, step)
		if err != nil {
			return err
		}
		for _, side := range []string{"rollouts-demo-stable", "rollouts-demo-canary"} {
			if want := slices.Contains(services, side); want != strings.Contains(printed, `"name": "rollouts-demo/rollouts-demo/`+side+`"`) {
				return fmt.Errorf("there is a cluster of %s: %t, want %t, in:\n%s", side, !want, want, printed)
			}
		}
		return nil
	})
}

// uninstall removes plugin and agent.
func (w *walk) uninstall() {
	w.t.Helper()
	w.do(guidetest.Install, "remove-plugin", "remove-permission", "uninstall-file", "remove-agent")
	controllertest.Await(w.t)
	if got := controllertest.Config(w.t); got != "" {
		w.t.Errorf("the controller's ConfigMap still has:\n%s", got)
	}
	for _, objects := range []string{
		"clusterrole,clusterrolebinding argo-rollouts-kedify-http",
		"clusterrole,clusterrolebinding,mutatingwebhookconfiguration kedify-agent",
		"deployment,service,job -n keda -l app.kubernetes.io/name=kedify-agent",
	} {
		if left := e2etest.Shell(w.t, "kubectl get -o name --ignore-not-found "+objects); left != "" {
			w.t.Errorf("still there:\n%s", left)
		}
	}
}

// awaitIngress waits until the sample's Ingress has an address and answers there, and
// returns the address.
func awaitIngress(t *testing.T, n *e2etest.Namespace) string {
	t.Helper()
	var address string
	e2etest.Eventually(t, e2etest.Patience, "an answer of the Ingress", func(ctx context.Context) error {
		ingress, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, sourceguide.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		addresses := ingress.Status.LoadBalancer.Ingress
		if len(addresses) == 0 {
			return errors.New("its status has no address")
		}
		address = addresses[0].IP
		answers, err := traffic.Send(ctx, traffic.Options{Target: net.JoinHostPort(address, "80"), Host: sourceguide.Host}, 1)
		if err == nil && answers[0].Failed() {
			err = errors.New(answers[0].String())
		}
		return err
	})
	return address
}

// awaitBackend waits until the sample's Ingress points at a Service and a port of it.
func awaitBackend(t *testing.T, n *e2etest.Namespace, want string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "the Ingress points at "+want, func(ctx context.Context) error {
		ingress, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, sourceguide.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		service := ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if got := fmt.Sprintf("%s:%d", service.Name, service.Port.Number); got != want {
			return fmt.Errorf("it points at %s", got)
		}
		return nil
	})
}

// lookAtProxies runs commands that show what the proxies serve.
func (w *walk) lookAtProxies() {
	w.t.Helper()
	const trouble, observe, interceptor = "docs/how-to/troubleshooting.md", "docs/how-to/observe.md", "docs/how-to/interceptor.md"
	sample := strings.NewReplacer("-n mynamespace", "-n "+sourceguide.Namespace, "httpso myapp", "httpso "+sourceguide.Name)
	for _, of := range []struct {
		page, name string
		parts      []string
	}{
		{observe, "routes", []string{"rollouts-demo-stable", "rollouts-demo-canary"}},
		{trouble, "events", []string{"weighted-backends"}},
		{trouble, "logs", []string{"starting main dispatch loop", "routes read"}},
		{interceptor, "check", []string{"✓ kedify-proxy-split", "✓ interceptor-split", " 0 ✗"}},
	} {
		s := guidetest.Step(w.t, of.page, of.name)
		s.Commands = sample.Replace(s.Commands)
		e2etest.Eventually(w.t, e2etest.Patience, s.Commands, func(ctx context.Context) error {
			printed, err := w.Do(ctx, s)
			if err == nil && !e2etest.ContainsAll(printed, of.parts) {
				err = fmt.Errorf("it prints, without %q:\n%s", of.parts, printed)
			}
			return err
		})
	}
}
