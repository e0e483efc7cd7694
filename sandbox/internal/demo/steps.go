package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The Rollouts of the demo of steps, two of them in the sandbox's own cluster.
const (
	checkout = "checkout"
	payments = "payments"
)

// The steps of checkout that are judged, by their index.
const (
	chatStep int32 = 1 + iota
	smokeStep
	togetherStep
	regionsStep
)

var stepsClaim = []string{
	"To be proved: a canary tells a chat, tests itself, and waits for another service and",
	"for another region; when that region fails, all of them roll back, and the chat is",
	"told why.",
}

const (
	stepsSample    = "sandbox/manifests/demo-steps"
	stepsNamespace = "shop"
)

// playSteps releases a version of a shop that fails in the region eu.
func (p *player) playSteps() {
	o, err := newOutside(func(text string) { p.say(Bold, "%s", label("the chat", "» "+clip(text, longest))) })
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = o.Close() })
	home := p.inNamespace(e2etest.Connect(p), stepsNamespace)
	eu, kubeconfig := p.connectRegion(home.Cluster)
	for _, args := range [][]string{
		{"create", "ns", home.Name},
		{"apply", "-k", stepsSample},
		{kubeconfig, "create", "ns", eu.Name},
		{kubeconfig, "apply", "-k", filepath.Join(stepsSample, "eu")},
	} {
		p.run("kubectl", args...)
	}
	v, _ := newView(p)
	v.followRollouts(home, func(name string) string { return name })
	v.followRollouts(eu, func(name string) string { return name + " in eu" })
	home.AwaitHealthy(checkout, e2etest.Image("blue"))
	home.AwaitHealthy(payments, e2etest.Image("blue"))
	eu.AwaitHealthy(checkout, e2etest.Image("blue"))

	yellow := e2etest.Image("yellow")
	p.run("kubectl", "argo", "rollouts", "-n", home.Name, "set", "image", checkout, checkout+"="+yellow)
	p.run("kubectl", "argo", "rollouts", "-n", home.Name, "set", "image", payments, payments+"="+yellow)
	p.run("kubectl", "argo", "rollouts", kubeconfig, "-n", eu.Name, "set", "image", checkout, checkout+"="+yellow)
	p.check("checkout tells the chat that its canary begins", func() {
		home.AwaitStep(checkout, chatStep, v1alpha1.StepPluginPhaseSuccessful)
		o.require(p, "the canary of checkout has begun, with "+yellow)
	})
	p.check("a Job tests the new version", func() {
		home.AwaitStep(checkout, smokeStep, v1alpha1.StepPluginPhaseSuccessful)
		p.requireJob(home)
	})
	p.check("checkout waits for payments", func() {
		home.AwaitStep(checkout, togetherStep, v1alpha1.StepPluginPhaseRunning, payments)
	})
	home.AwaitPaused(payments, 1)
	p.run("kubectl", "argo", "rollouts", "-n", home.Name, "promote", payments)
	p.check("and goes on when payments is there", func() {
		home.AwaitStep(checkout, togetherStep, v1alpha1.StepPluginPhaseSuccessful, payments)
	})
	p.check("checkout waits for the region eu", func() {
		home.AwaitStep(checkout, regionsStep, v1alpha1.StepPluginPhaseRunning, "eu")
	})
	p.run("kubectl", "canary", "steps", checkout, "-n", home.Name)
	p.say(Bad, "the monitoring of eu says that 15 %% of the requests fail")
	o.fail()
	p.check("the canary in eu fails, and is rolled back", func() { awaitRolledBack(eu, checkout) })
	p.check("so checkout's step fails", func() {
		home.AwaitStep(checkout, regionsStep, v1alpha1.StepPluginPhaseFailed, "eu")
	})
	p.check("checkout is rolled back", func() { awaitRolledBack(home, checkout) })
	p.check("payments is rolled back with it", func() { awaitRolledBack(home, payments) })
	p.check("the chat is told why, and nothing else", func() {
		o.require(p, "the canary of checkout has begun", "checkout is rolled back: Step Plugin 5 (kedify/step) failed: regions: barrier regions#1: failed with others: shop/checkout in eu")
	})
}

// connectRegion connects the demo and kubectl with the region, as its administrator, and
// the plugin with the token that docs/how-to/step-rollouts.md makes. It returns kubectl's flag.
func (p *player) connectRegion(home *e2etest.Cluster) (eu *e2etest.Namespace, kubeconfig string) {
	secret, err := home.Kube.CoreV1().Secrets(region.Namespace).Get(p.ctx, region.Kubeconfigs, metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	eu = p.inNamespace(e2etest.ConnectTo(p, "eu", secret.Data[region.Admin]), stepsNamespace)
	config, err := clientcmd.Load(secret.Data[region.Admin])
	if err != nil {
		p.Fatalf("Secret %s/%s: %s: %v", region.Namespace, region.Kubeconfigs, region.Admin, err)
	}
	kubeconfig = "--kubeconfig=" + p.write(config, "eu")
	p.run("kubectl", kubeconfig, "apply", "-f", "deploy/rbac-regions/region.yaml")
	token := p.ask("kubectl " + kubeconfig + " -n argo-rollouts get secret argo-rollouts-region -o go-template='{{with .data.token}}{{. | base64decode}}{{end}}'")
	for _, user := range config.AuthInfos {
		*user = clientcmdapi.AuthInfo{Token: token}
	}
	p.run("kubectl", "-n", e2etest.ControllerNamespace, "create", "secret", "generic", "region-eu", "--from-file=kubeconfig="+p.write(config, "token"))
	return eu, kubeconfig
}

// write writes a kubeconfig to a file until the demo ends, and returns its path.
func (p *player) write(config *clientcmdapi.Config, name string) string {
	file := filepath.Join(p.TempDir(), name)
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		p.Fatal(err)
	}
	return file
}

// requireJob fails unless there is one Job in a namespace, which has succeeded.
func (p *player) requireJob(n *e2etest.Namespace) {
	jobs, err := n.Kube.BatchV1().Jobs(n.Name).List(p.ctx, metav1.ListOptions{})
	if err != nil {
		p.Fatal(err)
	}
	if len(jobs.Items) != 1 || jobs.Items[0].Status.Succeeded == 0 {
		p.Errorf("there are %d Jobs, want one that has succeeded: %+v", len(jobs.Items), jobs.Items)
	}
}

// awaitRolledBack waits until a canary is aborted and only the version before it runs.
func awaitRolledBack(n *e2etest.Namespace, name string) {
	n.AwaitRollout(name, "rolled back", func(ro *v1alpha1.Rollout) error {
		switch s := ro.Status; {
		case !s.Abort:
			return errors.New("it is not aborted")
		case s.UpdatedReplicas > 0 || s.Replicas == 0 || s.ReadyReplicas != s.Replicas:
			return fmt.Errorf("it has %s", podsOf(ro))
		}
		return nil
	})
}

// require waits until the chat has heard these messages, and fails if it was told others,
// or one of them twice. A message is known by how it begins.
func (o *outside) require(p *player, begin ...string) {
	e2etest.Eventually(p, e2etest.Patience, "messages in the chat", func(context.Context) error {
		chat, refused := o.heard()
		if len(refused) > 0 {
			p.Fatalf("requests that nobody expects: %s", strings.Join(refused, "; "))
		}
		if len(chat) < len(begin) {
			return fmt.Errorf("there are %d of %d: %q", len(chat), len(begin), chat)
		}
		for i, text := range chat {
			if i >= len(begin) || !strings.HasPrefix(text, begin[i]) {
				p.Fatalf("message %d of %d is %q; want %q", i+1, len(chat), text, begin)
			}
		}
		return nil
	})
}
