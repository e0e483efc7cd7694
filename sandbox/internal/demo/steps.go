package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/region"
)

// The Rollouts of the demo of steps, as people call them.
const (
	checkout   = "checkout"
	payments   = "payments"
	checkoutEU = "checkout in eu"
)

var shop = []string{checkout, payments, checkoutEU}

var stepsClaim = []Line{
	{"To be proved: a canary tells a chat, tests itself, and waits for another service and", Bold},
	{"for another region; when that region fails, all of them roll back, and the chat is", Bold},
	{"told why.", Bold},
}

// controllerNamespace is where Argo Rollouts is, and what admins prepare for steps.
const controllerNamespace = "argo-rollouts"

// stepsImage is the version that fails in the region.
const stepsImage = "argoproj/rollouts-demo:yellow"

// stepsPlayer plays the demo of steps.
type stepsPlayer struct {
	player
	outside *outside
	story   story
	dir     string
	// region is the flag of kubectl for the other cluster.
	region   string
	observed chan stepsObservation
}

// stepsObservation is what a watch has delivered, of the Rollout or the cluster's Job.
type stepsObservation struct {
	in string // "" for the sandbox's own cluster
	observation
}

// playSteps plays the demo of steps. It returns the exit code.
func (p *stepsPlayer) playSteps(ctx context.Context, client dynamic.Interface) (code int, err error) {
	if p.outside, err = newOutside(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.outside.Close()) }()
	if p.dir, err = os.MkdirTemp("", "steps-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	other, err := p.connectRegion(ctx, client)
	if err != nil {
		return 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.deploySteps(watching, client, other); err != nil {
		return 0, err
	}
	if err := p.release(ctx); err != nil && !errors.Is(err, errTooLong) {
		return 0, err
	} else if err != nil {
		// The judgement says what is missing.
		if err := p.screen.Sayf(Bad, "%s", err); err != nil {
			return 0, err
		}
	}
	p.story.chat, p.story.refused = p.outside.heard()
	verdicts := judgeSteps(p.story)
	code = 0
	for _, v := range verdicts {
		if !v.ok() {
			code = 1
		}
	}
	return code, p.screen.Say(stepsTable(verdicts, p.started, time.Since(p.started))...)
}

// connectRegion connects the demo and kubectl with the region, as its administrator, and the
// plugin with the token that docs/steps-regions.md makes.
func (p *stepsPlayer) connectRegion(ctx context.Context, client dynamic.Interface) (dynamic.Interface, error) {
	secret, err := readSecret(ctx, client, region.Namespace, region.Kubeconfigs)
	if err != nil {
		return nil, err
	}
	admin, err := clientcmd.Load(secret[region.Admin])
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %s: %w", region.Namespace, region.Kubeconfigs, region.Admin, err)
	}
	file := filepath.Join(p.dir, "eu")
	p.region = "--kubeconfig=" + file
	if err := clientcmd.WriteToFile(*admin, file); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*admin, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	other, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx, "kubectl", p.region, "apply", "-f", "deploy/rbac-regions/region.yaml"); err != nil {
		return nil, err
	}
	token, err := awaitToken(ctx, other)
	if err != nil {
		return nil, err
	}
	for _, user := range admin.AuthInfos {
		*user = clientcmdapi.AuthInfo{Token: token}
	}
	file = filepath.Join(p.dir, "token")
	if err := clientcmd.WriteToFile(*admin, file); err != nil {
		return nil, err
	}
	return other, p.run(ctx, "kubectl", "-n", controllerNamespace, "create", "secret", "generic", "region-eu", "--from-file=kubeconfig="+file)
}

// awaitToken waits until Kubernetes has written the token into the Secret of
// deploy/rbac-regions/region.yaml.
func awaitToken(ctx context.Context, client dynamic.Interface) (string, error) {
	const name = "argo-rollouts-region"
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		secret, err := readSecret(ctx, client, controllerNamespace, name)
		if err != nil {
			return "", err
		}
		if token := secret["token"]; len(token) > 0 {
			return string(token), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("Secret %s/%s of the region has no token: %w", controllerNamespace, name, ctx.Err())
		case <-time.After(redrawInterval):
		}
	}
}

func readSecret(ctx context.Context, client dynamic.Interface, namespace, name string) (map[string][]byte, error) {
	object, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %w", namespace, name, err)
	}
	secret := &corev1.Secret{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret)
	return secret.Data, err
}

// deploySteps applies the Rollouts of both clusters, and waits until all are healthy.
func (p *stepsPlayer) deploySteps(ctx context.Context, client, other dynamic.Interface) error {
	namespace := p.setting.namespace
	for _, args := range [][]string{
		{"create", "ns", namespace},
		{"apply", "-k", p.setting.sample},
		{p.region, "create", "ns", namespace},
		{p.region, "apply", "-k", filepath.Join(p.setting.sample, "eu")},
	} {
		if err := p.run(ctx, "kubectl", args...); err != nil {
			return err
		}
	}
	p.observed = make(chan stepsObservation, 256)
	p.story.rollouts = map[string][]stepsSeen{}
	p.watch(ctx, "", client)
	p.watch(ctx, "eu", other)
	err := p.until(ctx, startTime, func() bool {
		return p.story.all(func(s stepsSeen) bool { return s.Phase == "Healthy" && s.Promoted })
	})
	if errors.Is(err, errTooLong) {
		return fmt.Errorf("Rollouts of namespace %s do not become healthy: %w", namespace, err)
	}
	return err
}

// watch observes the Rollouts and Jobs of a cluster.
func (p *stepsPlayer) watch(ctx context.Context, in string, client dynamic.Interface) {
	o := observer{client: client, namespace: p.setting.namespace, out: make(chan observation)}
	go o.follow(ctx, v1alpha1.RolloutGVR, "", readRollout)
	if in == "" {
		go o.follow(ctx, batchv1.SchemeGroupVersion.WithResource("jobs"), "", readJob)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case seen := <-o.out:
				select {
				case p.observed <- stepsObservation{in, seen}:
				case <-ctx.Done():
				}
			}
		}
	}()
}

func readJob(object *unstructured.Unstructured) (observation, error) {
	job := &batchv1.Job{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job)
	return observation{job: job}, err
}

// release sets the new image everywhere, lets payments go on when checkout waits for it, has
// the region fail when checkout waits for that, and waits until all have come to rest.
func (p *stepsPlayer) release(ctx context.Context) error {
	p.story.begin()
	for _, name := range []string{checkout, payments} {
		if err := p.rollouts(ctx, "set", "image", name, name+"="+stepsImage); err != nil {
			return err
		}
	}
	if err := p.run(ctx, "kubectl", "argo", "rollouts", p.region, "-n", p.setting.namespace, "set", "image", checkout, checkout+"="+stepsImage); err != nil {
		return err
	}
	if err := p.until(ctx, stepsTime, func() bool { return p.story.waited(checkout, togetherStep, payments) }); err != nil {
		return err
	}
	if err := p.rollouts(ctx, "promote", payments); err != nil {
		return err
	}
	if err := p.until(ctx, stepsTime, func() bool { return p.story.waited(checkout, regionsStep, "eu") }); err != nil {
		return err
	}
	if err := p.run(ctx, "kubectl", "canary", "steps", checkout, "-n", p.setting.namespace); err != nil {
		return err
	}
	if err := p.say(Bad, "the monitoring of eu says that 15 % of the requests fail"); err != nil {
		return err
	}
	p.outside.fail()
	return p.until(ctx, stepsTime, func() bool {
		p.story.chat, _ = p.outside.heard()
		return p.story.all(stepsSeen.rolledBack) && p.story.told(rolledBackText) > 0
	})
}

// stepsTime bounds each wait of the demo of steps: a step is called every 16 seconds.
const stepsTime = 2 * time.Minute

// until shows what happens until done returns true. It returns errTooLong when that takes
// longer than limit.
func (p *stepsPlayer) until(ctx context.Context, limit time.Duration, done func() bool) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	redraw := time.NewTicker(redrawInterval)
	defer redraw.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%w: more than %s", errTooLong, limit)
		case text := <-p.outside.said:
			if err := p.say(Bold, fmt.Sprintf("%-15s » %s", "the chat", clip(text, longest))); err != nil {
				return err
			}
		case o := <-p.observed:
			if err := p.takeSteps(o); err != nil {
				return err
			}
		case <-redraw.C:
		}
		if len(p.observed) == 0 && len(p.outside.said) == 0 && done() {
			return nil
		}
		if err := p.screen.Panel(p.story.panel()); err != nil {
			return err
		}
	}
}

// takeSteps adds an observation to the story, and tells what is new.
func (p *stepsPlayer) takeSteps(o stepsObservation) error {
	switch {
	case o.err != nil:
		return p.say(Bad, o.err.Error())
	case o.job != nil:
		p.story.addJob(o.job)
		return nil
	case o.rollout == nil:
		return nil
	}
	name := o.rollout.Name
	if o.in != "" {
		name += " in " + o.in
	}
	for _, line := range p.story.add(name, o.at, o.rollout) {
		if err := p.say(line.Style, line.Text); err != nil {
			return err
		}
	}
	return nil
}
