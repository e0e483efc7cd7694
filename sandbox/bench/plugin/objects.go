package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// callers is the default number of the controller's workers.
const callers = 10

// bench measures a subject beside its slow build and one whose calls do nothing.
type bench struct {
	*gauge.Cluster
	subject
	idle string
}

func name(i int) string { return fmt.Sprintf("shop-frontend-%04d", i) }

func (b *bench) all() dynamic.ResourceInterface {
	return b.Resource(b.resource).Namespace(gauge.Namespace)
}

// make makes the objects from..to-1, with a status if they are reconciled, and a Rollout, as kubectl apply does,
// for each with a number below b.rollouts.
func (b *bench) make(ctx context.Context, from, to int) error {
	return gauge.Each(callers, to-from, func(i int) error {
		i += from
		if err := b.Create(ctx, b.object(name(i))); err != nil {
			return err
		}
		if b.status != "" && i < objects {
			if _, err := b.all().Patch(ctx, name(i), k8stypes.MergePatchType, []byte(b.status), metav1.PatchOptions{}, "status"); err != nil {
				return err
			}
		}
		if i >= b.rollouts {
			return nil
		}
		ro := b.rollout(i)
		applied, err := ro.MarshalJSON()
		if err != nil {
			return err
		}
		ro.SetAnnotations(map[string]string{"rollout.argoproj.io/revision": "7", corev1.LastAppliedConfigAnnotation: string(applied)})
		made, err := b.For(ro).Create(ctx, ro, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		if err == nil {
			uids.Store(i, made.GetUID())
		}
		return err
	})
}

// uids has the UID of each Rollout by its number.
var uids sync.Map

// rollout returns the i-th Rollout: the guide's sample.
func (b *bench) rollout(i int) *unstructured.Unstructured {
	return gauge.Object(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[1]s, namespace: %[2]s, annotations: {rollout.argoproj.io/revision: "7"}}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "argoproj/rollouts-demo:blue", ports: [{name: http, containerPort: 8080}]}]}
  strategy:
    canary:
      stableService: %[1]s-stable
      canaryService: %[1]s-canary
      trafficRouting: {plugins: %[3]s}
      steps: [{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {duration: 30s}}, {setWeight: 80}, {pause: {duration: 30s}}]`,
		name(i), gauge.Namespace, b.configuration(name(i)))
}

// process is a plugin started as the controller does.
type process struct {
	*gauge.Plugin
	rollouts []*v1alpha1.Rollout
}

// start runs a build. Its Rollouts are those of the first objects, as the controller sends them
// with each call.
func (b *bench) start(path string) (*process, error) {
	started, err := gauge.StartPlugin(exec.Command(path), "trafficrouter", "RpcTrafficRouterPlugin", &rpc.RpcTrafficRouterPlugin{})
	if err != nil {
		return nil, err
	}
	p := &process{Plugin: started, rollouts: make([]*v1alpha1.Rollout, objects)}
	for i := range p.rollouts {
		object := b.rollout(i)
		if uid, known := uids.Load(i); known {
			object.SetUID(uid.(k8stypes.UID))
		}
		object.SetGeneration(1)
		p.rollouts[i] = &v1alpha1.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p.rollouts[i]); err != nil {
			return nil, err
		}
	}
	if err := p.router().InitPlugin(); err.HasError() {
		return nil, fmt.Errorf("%s: InitPlugin: %w", path, err)
	}
	return p, nil
}

func (p *process) router() rpc.TrafficRouterPlugin { return p.Served.(rpc.TrafficRouterPlugin) }

// reconcile makes the two calls of a reconcile that carry the weight.
func (p *process) reconcile(i int, weight int32) error {
	ro := p.rollouts[i]
	if err := p.router().SetWeight(ro, weight, nil); err.HasError() {
		return err
	}
	verified, err := p.router().VerifyWeight(ro, weight, nil)
	if err.HasError() {
		return err
	}
	if verified != types.Verified {
		return fmt.Errorf("weight %d of %s is not verified", weight, ro.Name)
	}
	return nil
}

// reconcileFirst reconciles the first n objects with a weight.
func (p *process) reconcileFirst(n int, weight int32) error {
	return gauge.Each(callers, n, func(i int) error { return p.reconcile(i, weight) })
}

var requested = regexp.MustCompile(`resource="(httpscaledobjects|httproutes|services|rollouts|events)"`)

// counted counts the requests that a plugin may have made, without the watches that have ended.
func counted(labels string) bool {
	return requested.MatchString(labels) && !strings.Contains(labels, `verb="WATCH"`)
}
