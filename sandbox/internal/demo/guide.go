package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	// guideRate is how many requests a second come to the guide's sample, which is
	// scaled to 5 for each pod: 8 pods. followed is how many pods show that they
	// follow the requests.
	guideRate = 40
	followed  = 5

	// walkTime bounds a command of the guide.
	walkTime = 3 * time.Minute

	// printedLines is how many lines of an output are shown.
	printedLines = 40
)

var guideClaim = []Line{
	{"To be proved: each command of Kedify's guide does what the guide says, from the", Bold},
	{"installation of the plugin to its removal; pods follow the requests; a canary gets", Bold},
	{"its weights, and none once it is aborted; and no request fails.", Bold},
}

var guideActs = []Act{
	{Title: "promoted", Image: "argoproj/rollouts-demo:yellow", ByHand: true, Look: "canary"},
	{Title: "aborted by hand", Image: "argoproj/rollouts-demo:green", ByHand: true, CaughtAt: 20},
}

// deployGuide does what the guide does before the first request: it installs the
// plugin, restarts the controller, and applies the sample.
func (p *player) deployGuide(ctx context.Context, client dynamic.Interface) error {
	url, sum, err := registered(ctx, client)
	if err != nil {
		return err
	}
	if err := sourceguide.WriteFiles(ctx, p.walk.Dir, p.root, url, sum); err != nil {
		return err
	}
	if err := p.do(ctx, sourceguide.Step{Commands: "kubectl apply -f " + sourceguide.PluginFile + "\n"}); err != nil {
		return err
	}
	for _, heading := range []string{"restart", "deploy"} {
		if err := p.walkThrough(ctx, heading); err != nil {
			return err
		}
	}
	return p.awaitHealthy(ctx, client)
}

// registered returns where the sandbox's plugin is downloaded from, and its SHA-256.
func registered(ctx context.Context, client dynamic.Interface) (url, sum string, err error) {
	object, err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("argo-rollouts").Get(ctx, "argo-rollouts-config", metav1.GetOptions{})
	if err != nil {
		return "", "", err
	}
	text, _, _ := unstructured.NestedString(object.Object, "data", "trafficRouterPlugins")
	var plugins []struct{ Name, Location, SHA256 string }
	if err := yaml.Unmarshal([]byte(text), &plugins); err != nil {
		return "", "", fmt.Errorf("ConfigMap argo-rollouts/argo-rollouts-config: data.trafficRouterPlugins: %w", err)
	}
	for _, plugin := range plugins {
		if plugin.Name == "kedify/http" {
			return plugin.Location, plugin.SHA256, nil
		}
	}
	return "", "", errors.New("ConfigMap argo-rollouts/argo-rollouts-config: data.trafficRouterPlugins: expected kedify/http")
}

// ingressTarget returns where requests for the sample's Ingress are sent: to the
// address in its status, which it waits for.
func ingressTarget(ctx context.Context, client dynamic.Interface) (traffic.Options, error) {
	ctx, cancel := context.WithTimeout(ctx, servedTime)
	defer cancel()
	for {
		ingress, err := client.Resource(networkingv1.SchemeGroupVersion.WithResource("ingresses")).Namespace(sourceguide.Namespace).Get(ctx, sourceguide.Name, metav1.GetOptions{})
		if err != nil {
			return traffic.Options{}, fmt.Errorf("Ingress %s/%s: %w", sourceguide.Namespace, sourceguide.Name, err)
		}
		for _, address := range objects(ingress.Object, "status", "loadBalancer", "ingress") {
			return traffic.Options{Target: net.JoinHostPort(fmt.Sprint(address["ip"]), "80"), Host: sourceguide.Host, Path: "/color"}, nil
		}
		select {
		case <-ctx.Done():
			return traffic.Options{}, fmt.Errorf("Ingress %s/%s has no address: %w", sourceguide.Namespace, sourceguide.Name, ctx.Err())
		case <-time.After(redrawInterval):
		}
	}
}

// seePodsFollow looks at the objects as the guide does, and waits until there are more
// pods, because of the requests.
func (p *player) seePodsFollow(ctx context.Context) error {
	if err := p.walkThrough(ctx, "look"); err != nil {
		return err
	}
	p.next = fmt.Sprintf("a canary, when %d pods have followed the requests", followed)
	err := p.until(ctx, walkTime, func(seen Seen) (bool, error) { return seen.Ready >= followed, nil })
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("%d requests a second, and there are not %d pods: %w", guideRate, followed, err)
	}
	return err
}

// lookAndRemove runs the guide's troubleshooting and removes the ScaledObject, while
// requests are sent.
func (p *player) lookAndRemove(ctx context.Context) error {
	if err := p.walkThrough(ctx, "troubleshoot"); err != nil {
		return err
	}
	if err := p.do(ctx, sourceguide.Step{Commands: "kubectl -n rollouts-demo delete scaledobject rollouts-demo\n" +
		"kubectl -n rollouts-demo wait --for=delete httpso/rollouts-demo --timeout=110s\n"}); err != nil {
		return err
	}
	from := p.load.Mark()
	_, err := p.load.Await(ctx, from, enough)
	return err
}

// cleanUp removes the namespace, the plugin and the agent.
func (p *player) cleanUp(ctx context.Context) error {
	p.observed = nil // of the namespace
	if err := p.walkThrough(ctx, "clean up"); err != nil {
		return err
	}
	steps, err := sourceguide.Uninstall(p.root)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := p.do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// walkThrough runs the commands under a heading of the guide.
func (p *player) walkThrough(ctx context.Context, heading string) error {
	for _, s := range sourceguide.Steps(heading) {
		if err := p.do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// do shows a command of the guide, runs it, and shows what it prints. What the guide
// shows has to be printed. Meanwhile it goes on to show what happens.
func (p *player) do(ctx context.Context, s sourceguide.Step) error {
	for line := range strings.Lines(s.Commands) {
		if err := p.screen.Sayf(Bold, "$ %s", strings.TrimRight(line, "\n")); err != nil {
			return err
		}
	}
	type result struct {
		printed string
		err     error
	}
	ended := make(chan result, 1)
	go func() {
		printed, err := p.walk.Do(ctx, s)
		ended <- result{printed, err}
	}()
	var r result
	if p.observed == nil {
		r = <-ended
	} else if err := p.until(ctx, walkTime, func(Seen) (done bool, _ error) {
		select {
		case r = <-ended:
			done = true
		default:
		}
		return done, nil
	}); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(r.printed, "\n"), "\n")
	for _, line := range lines[:min(len(lines), printedLines)] {
		if err := p.screen.Sayf(Plain, "%s", line); err != nil {
			return err
		}
	}
	if more := len(lines) - printedLines; more > 0 {
		if err := p.screen.Sayf(Dim, "… and %d lines more", more); err != nil {
			return err
		}
	}
	return r.err
}
