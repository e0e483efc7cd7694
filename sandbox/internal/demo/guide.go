package demo

import (
	"fmt"
	"net"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/controllertest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	// guideRate is how many requests a second come to the guide's sample, which is
	// scaled to 5 for each pod: 8 pods. followed is how many pods show that they
	// follow the requests.
	guideRate = 40
	followed  = 5

	// guideJudged is how many requests a share is judged by. They come within a pause of
	// 30 s also where a busy machine sends them at half the rate.
	guideJudged = 150
)

var guideClaim = []string{
	"To be proved: each command of Kedify's guide does what the guide says, from the",
	"installation of the plugin to its removal; pods follow the requests; a canary gets",
	"its weights, and none once it is aborted; and no request fails.",
}

// guideWalk runs the guide's commands, and shows them.
type guideWalk struct {
	*player
	sourceguide.Walk
}

// playGuide walks through the guide, as TestTutorial does through the tutorial.
func (p *player) playGuide() {
	const name = sourceguide.Name
	split := onHTTPScaledObject.split
	cluster := e2etest.Connect(p)
	n := p.inNamespace(cluster, sourceguide.Namespace)
	w := guideWalk{p, sourceguide.Walk{Dir: p.TempDir()}}
	sum := controllertest.SHA256.FindString(controllertest.Config(p))
	if err := sourceguide.WriteFiles(p.ctx, w.Dir, p.root, controllertest.PluginURL, sum); err != nil {
		p.Fatal(err)
	}
	w.do(page.Step{Commands: "kubectl apply -f " + sourceguide.PluginFile + "\n"})
	w.walk("restart")
	v, stop := newView(p)
	v.followCanary(n, annotation)
	p.check("plugin and sample are installed as the guide says", func() {
		w.walk("deploy")
		n.AwaitHealthy(name, e2etest.Image("blue"))
	})
	w.Address = p.ask("kubectl -n " + n.Name + " get ingress " + name + " -o jsonpath='{.status.loadBalancer.ingress[0].ip}'")
	proxy := traffictest.Proxy{Name: "ingress", Address: net.JoinHostPort(w.Address, "80")}
	p.awaitServed(proxy, sourceguide.Host)
	load := traffictest.StartParallelLoadAt(p, proxy, sourceguide.Host, guideRate)
	p.show(Line{fmt.Sprintf("requests: %d a second, as of  curl -H 'Host: %s' http://%s/color", guideRate, sourceguide.Host, proxy.Address), Dim})
	v.showLoad(load.Load)
	p.check("the objects are as the guide shows them", func() { w.walk("look") })
	p.check("pods follow the requests", func() {
		n.AwaitRollout(name, "pods follow the requests", func(ro *v1alpha1.Rollout) error {
			if ro.Status.AvailableReplicas < followed {
				return fmt.Errorf("%d pods are available at %d requests a second, want %d or more", ro.Status.AvailableReplicas, guideRate, followed)
			}
			return nil
		})
		p.awaitOnly("blue", load)
	})

	p.show(Line{"\nyellow: promoted", Bold})
	record := p.record(n, annotation)
	w.walk("start")
	for _, at := range onHTTPScaledObject.pauses {
		p.check(fmt.Sprintf("at a weight of %d yellow gets that share", at.weight), func() {
			p.requireVerified(n.AwaitPaused(name, at.step), at.weight)
			if at.step == 1 {
				w.walk("watch", "split", "count")
			}
			p.awaitShare(proxy, load, "yellow", at.weight, guideJudged)
		})
		if at.weight < 80 { // that pause ends by itself
			w.walk("promote")
		}
	}
	p.check("yellow is promoted, and gets all requests", func() {
		n.AwaitHealthy(name, e2etest.Image("yellow"))
		p.awaitOnly("yellow", load)
	})
	record.require(split(0, false), split(20, false), split(50, false), split(80, false), split(100, false), split(0, false))

	p.show(Line{"\ngreen: aborted by hand", Bold})
	record = p.record(n, annotation)
	p.run("kubectl", "argo", "rollouts", "-n", n.Name, "set", "image", name, name+"="+e2etest.Image("green"))
	p.check("at a weight of 20 green gets that share", func() {
		p.requireVerified(n.AwaitPaused(name, 1), 20)
		p.awaitShare(proxy, load, "green", 20, guideJudged)
	})
	w.walk("abort")
	p.check("yellow gets all requests again", func() {
		n.AwaitAborted(name)
		p.awaitOnly("yellow", load)
	})
	record.require(split(0, false), split(20, false), split(0, false))

	p.check("the troubleshooting prints what the guide shows", func() { w.walk("log", "log-plugin", "clusters", "endpoints") })
	p.check("without the ScaledObject the stable version gets all requests", func() {
		w.do(page.Step{Commands: "kubectl -n rollouts-demo delete scaledobject rollouts-demo\n" +
			"kubectl -n rollouts-demo wait --for=delete httpso/rollouts-demo --timeout=110s\n"})
		load.RequireOnly("yellow")
	})
	p.check("no request failed", func() { load.Finish(nil, "blue", "yellow", "green") })
	stop() // there is nothing more to see
	p.check("the plugin and the agent are removed as the guide says", func() { w.cleanUp() })
}

// cleanUp removes the namespace, the plugin and the agent.
func (w guideWalk) cleanUp() {
	w.walk("clean")
	w.all(sourceguide.Uninstall(w.root))
}

// walk runs commands of the guide, by their names.
func (w guideWalk) walk(names ...string) {
	w.all(sourceguide.Steps(names...))
}

func (w guideWalk) all(steps []page.Step, err error) {
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range steps {
		w.do(s)
	}
}

// do shows a command of the guide, runs it, and shows what it prints. What the guide
// shows has to be printed.
func (w guideWalk) do(s page.Step) {
	for line := range strings.Lines(s.Commands) {
		w.show(Line{"$ " + strings.TrimRight(line, "\n"), Bold})
	}
	printed, err := w.Do(w.ctx, s)
	w.printed(printed)
	if err != nil {
		w.Fatal(err)
	}
}
