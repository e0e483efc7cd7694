package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
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
	// guide is this project's own guide, which has the source guide's commands.
	guide = "docs/guide.md"

	// guideRate is how many requests a second there are. At 5 for each pod they take 4.
	guideRate, guidePods = 18, 4
)

// TestGuide runs the commands of Kedify's guide, in its order and as they are printed,
// with the sample as it is printed: each prints the output that the guide shows below
// it, and the one that docs/guide.md shows, which has the same commands in the same
// order. Requests come from the first answer of the Ingress to after the removal of the
// ScaledObject; none fails. In the end, plugin and agent are uninstalled, as
// docs/guide.md says.
//
// It is not parallel: it restarts the controller, and uninstalls what other tests need.
func TestGuide(t *testing.T) {
	w := newGuideWalk(t)
	n := e2etest.AdoptNamespace(t, sourceguide.Namespace)
	const name = sourceguide.Name

	e2etest.Shell(t, "kubectl apply -f "+filepath.Join(w.Dir, sourceguide.PluginFile))
	w.do("restart")
	controllertest.Await(t)
	w.do("deploy")
	w.Address = awaitIngress(t, n)
	load := traffictest.StartParallelLoadAt(t, traffictest.Proxy{Name: "ingress", Address: net.JoinHostPort(w.Address, "80")}, sourceguide.Host, guideRate)
	w.do("look")
	awaitBackend(t, n, "kedify-proxy:8080")
	n.AwaitRollout(name, "pods follow the requests", func(ro *v1alpha1.Rollout) error {
		if ro.Status.AvailableReplicas != guidePods {
			return fmt.Errorf("%d pods are available at %d requests a second, want %d", ro.Status.AvailableReplicas, guideRate, guidePods)
		}
		return nil
	})
	record := n.Record(name)

	w.do("start")
	w.do("canary")
	w.requireClusters("rollouts-demo-stable", "rollouts-demo-canary")
	w.lookAtProxies()

	w.do("promote")
	n.AwaitPaused(name, 3)
	n.RequireSplit(name, checktest.SampleSplit(50))
	w.do("promote") // The guide: "You can repeat that".
	n.AwaitPaused(name, 5)
	n.RequireSplit(name, checktest.SampleSplit(80))
	n.AwaitHealthy(name, e2etest.Image("yellow")) // The pause ends by itself.
	n.AwaitSplit(name, e2etest.NoSplit)

	n.SetImage(name, e2etest.Image("blue"))
	n.AwaitPaused(name, 1)
	w.do("abort")
	n.AwaitAborted(name)
	n.AwaitSplit(name, e2etest.NoSplit)
	record.RequireSplits(e2etest.NoSplit, checktest.SampleSplit(20), checktest.SampleSplit(50), checktest.SampleSplit(80), checktest.SampleSplit(100), e2etest.NoSplit,
		checktest.SampleSplit(20), e2etest.NoSplit)
	load.RequireOnly("yellow")
	w.do("troubleshoot")
	w.requireClusters("rollouts-demo-stable")

	n.Kubectl("delete", "scaledobject", name)
	awaitBackend(t, n, "rollouts-demo-stable:80")
	e2etest.Shell(t, "kubectl -n rollouts-demo wait --for=delete httpso/rollouts-demo --timeout=110s")
	load.RequireOnly("yellow")
	load.Finish(nil, "blue", "yellow")

	w.do("clean up")
	w.uninstall()
}

// guideWalk runs the source guide's commands, and compares what they print with
// docs/guide.md, too.
type guideWalk struct {
	sourceguide.Walk
	t    *testing.T
	page []sourceguide.Step
	// at is the index in page of the command that was run last.
	at int
}

// newGuideWalk writes the files that the commands name. What the walk uninstalls is put
// back when the test ends.
func newGuideWalk(t *testing.T) *guideWalk {
	t.Helper()
	w := &guideWalk{t: t, Walk: sourceguide.Walk{Dir: t.TempDir()}, at: -1}
	w.page = guidetest.StepsBetween(t, guide, "\n## 2. Install\n", "\n### Uninstall the plugin\n")
	config := controllertest.KeepConfig(t)
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
	if err := sourceguide.WriteFiles(t.Context(), w.Dir, e2etest.Repository(t), controllertest.PluginURL, controllertest.SHA256.FindString(config)); err != nil {
		t.Fatal(err)
	}
	return w
}

// do runs the commands under a heading of the source guide.
func (w *guideWalk) do(heading string) {
	w.t.Helper()
	for _, s := range sourceguide.Steps(heading) {
		printed, err := w.Do(w.t.Context(), s)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Logf("%s%s", s.Commands, printed)
		at := slices.IndexFunc(w.page, func(p sourceguide.Step) bool { return p.Commands == s.Commands })
		if at < 0 || at < w.at {
			w.t.Errorf("%s has not, or not in the source guide's order, the commands\n%s", guide, s.Commands)
			continue
		}
		w.at = at
		if shown := w.page[at].Output; shown != "" {
			if err := sourceguide.Compare(shown, printed); err != nil {
				w.t.Errorf("%s: %s%v", guide, s.Commands, err)
			}
		}
	}
}

// requireClusters runs the command that looks at kedify-proxy's configuration: it prints
// a cluster for each of these Services, and for no other.
func (w *guideWalk) requireClusters(services ...string) {
	w.t.Helper()
	steps := sourceguide.Steps("troubleshoot")
	step := steps[slices.IndexFunc(steps, func(s sourceguide.Step) bool { return strings.Contains(s.Commands, "config_dump") })]
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

// uninstall runs the commands of docs/guide.md that uninstall plugin and agent.
func (w *guideWalk) uninstall() {
	w.t.Helper()
	steps, err := sourceguide.Uninstall(e2etest.Repository(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range steps {
		printed, err := w.Do(w.t.Context(), s)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Logf("%s%s", s.Commands, printed)
	}
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

// lookAtProxies runs commands of docs/interceptor.md and docs/troubleshooting.md that show
// what the proxies serve.
func (w *guideWalk) lookAtProxies() {
	w.t.Helper()
	for lines, parts := range map[string][]string{
		"kubectl -n keda port-forward svc/keda-add-ons-http-interceptor-admin 9090:9090\ninterceptor routes\n": {"rollouts-demo-stable", "rollouts-demo-canary"},
		"kubectl -n rollouts-demo describe httpso rollouts-demo\n":                                             {"weighted-backends"},
		"kubectl -n rollouts-demo logs deploy/kedify-proxy --container envoy\n":                                {"starting main dispatch loop"},
		"kubectl -n keda logs -l app.kubernetes.io/name=keda-add-ons-http-interceptor --prefix --tail=-1\n":    {"routes read"},
		"kubectl canary check rollouts-demo -n rollouts-demo\n":                                                {"✓ kedify-proxy-split", "✓ interceptor-split", " 0 ✗"},
	} {
		e2etest.Eventually(w.t, e2etest.Patience, lines, func(ctx context.Context) error {
			printed, err := w.Do(ctx, sourceguide.Step{Commands: lines})
			if err == nil && !e2etest.ContainsAll(printed, parts) {
				err = fmt.Errorf("it prints, without %q:\n%s", parts, printed)
			}
			return err
		})
	}
}
