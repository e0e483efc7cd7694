package check

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

// gather reads all that the checks decide on. Reads that do not need one
// another run concurrently; the error of a read that fails is kept.
func gather(ctx context.Context, c *cluster, opts Options) snapshot {
	s := snapshot{namespace: opts.Namespace, rollout: opts.Rollout, steps: stepSnapshot{kinds: kinds.All}}
	var wg sync.WaitGroup
	wg.Go(func() { s.controller = gatherController(ctx, c, opts) })
	wg.Go(func() {
		s.objects = gatherNamespace(ctx, c, opts.Namespace)
		asked := snapshot{namespace: s.namespace, rollout: s.rollout, objects: s.objects}
		wg.Go(func() { s.proxies = gatherProxies(ctx, c, opts, asked) })
		wg.Go(func() { s.gateway = gatherGateway(ctx, c, asked) })
		s.agent = gatherAgent(ctx, c, asked)
	})
	wg.Wait()
	s.plugins = routersToCheck(s.controller, rolloutsToCheck(s))
	s.steps.programs = stepPrograms(s)
	known := s // a copy for the reads below, which write to s
	for i := range s.plugins {
		wg.Go(func() { s.plugins[i].access = gatherRouterAccess(ctx, c, known, known.plugins[i]) })
	}
	wg.Go(func() {
		withPresets := known
		withPresets.steps.presets = gatherPresets(ctx, c, known)
		s.steps.presets = withPresets.steps.presets
		s.steps.regions = gatherRegions(ctx, c, withPresets)
	})
	wg.Wait()
	return s
}

func gatherNamespace(ctx context.Context, c *cluster, namespace string) namespaceSnapshot {
	var n namespaceSnapshot
	var wg sync.WaitGroup
	at := func(group, version, resource string) target {
		return target{group: group, version: version, resource: resource, namespace: namespace}
	}
	wg.Go(func() { n.rollouts, n.unreadable = listRollouts(ctx, c, at("argoproj.io", "v1alpha1", "rollouts")) })
	wg.Go(func() {
		n.httpScaledObjects = list[httpScaledObject](ctx, c, at("http.keda.sh", "v1alpha1", "httpscaledobjects"))
	})
	wg.Go(func() { n.scaledObjects = list[scaledObject](ctx, c, at("keda.sh", "v1alpha1", "scaledobjects")) })
	wg.Go(func() { n.services = list[corev1.Service](ctx, c, at("", "v1", "services")) })
	wg.Go(func() {
		n.endpointSlices = list[endpointSlice](ctx, c, at("discovery.k8s.io", "v1", "endpointslices"))
	})
	wg.Go(func() { n.replicaSets = list[replicaSet](ctx, c, at("apps", "v1", "replicasets")) })
	wg.Go(func() {
		events := at("", "v1", "events")
		events.query = map[string]string{"fieldSelector": "reason=TrafficRoutingError,involvedObject.kind=Rollout"}
		n.events = list[corev1.Event](ctx, c, events).Value
	})
	wg.Wait()
	return n
}

// listRollouts reads the Rollouts of a namespace. The API server does not look at all of a pod
// template, so that one of them may be none that Argo Rollouts can read: the others are then
// read all the same.
func listRollouts(ctx context.Context, c *cluster, t target) (read[[]v1alpha1.Rollout], map[string]error) {
	answer := list[json.RawMessage](ctx, c, t)
	rollouts, unreadable := read[[]v1alpha1.Rollout]{Err: answer.Err}, map[string]error{}
	for _, text := range answer.Value {
		var ro v1alpha1.Rollout
		if err := json.Unmarshal(text, &ro); err != nil {
			var named metav1.PartialObjectMetadata
			_ = json.Unmarshal(text, &named) // the API server has read it
			unreadable[named.Name] = err
			continue
		}
		rollouts.Value = append(rollouts.Value, ro)
	}
	return rollouts, unreadable
}

func gatherController(ctx context.Context, c *cluster, opts Options) controllerSnapshot {
	s := controllerSnapshot{configNamespace: defaultControllerNamespace, nodes: map[string]read[corev1.Node]{}}
	if opts.ControllerNamespace != "" {
		s.configNamespace = opts.ControllerNamespace
	}
	s.found, s.searched = findControllers(ctx, c, opts)
	s.deployment = chooseController(s.found.Value, opts.Namespace)
	if s.deployment != nil {
		s.configNamespace = configNamespaceOf(s.deployment)
	}
	answer := get[corev1.ConfigMap](ctx, c, target{version: "v1", resource: "configmaps", namespace: s.configNamespace, name: configMapName})
	if s.config.Err = answer.Err; answer.Err == nil {
		s.config.Value = &answer.Value
	}
	if s.deployment == nil {
		return s
	}
	t := target{version: "v1", resource: "pods", namespace: s.deployment.Namespace}
	t.query = map[string]string{"labelSelector": metav1.FormatLabelSelector(s.deployment.Spec.Selector)}
	s.now, s.pods = time.Now(), list[corev1.Pod](ctx, c, t)
	for _, pod := range livePods(s.pods.Value) {
		node := pod.Spec.NodeName
		if _, known := s.nodes[node]; node != "" && !known {
			s.nodes[node] = get[corev1.Node](ctx, c, target{version: "v1", resource: "nodes", name: node})
		}
	}
	return s
}

// findControllers lists the Deployments that look like the controller, in the namespace that
// was given, or in all; where listing all is forbidden, in the usual one and the Rollouts' own.
func findControllers(ctx context.Context, c *cluster, opts Options) (found read[[]deployment], searched string) {
	search := func(namespaces ...string) {
		found = read[[]deployment]{}
		for _, namespace := range namespaces {
			t := target{group: "apps", version: "v1", resource: "deployments", namespace: namespace}
			if opts.ControllerNamespace == "" {
				t.query = map[string]string{"labelSelector": componentLabel + "=" + controllerComponent}
			}
			answer := list[deployment](ctx, c, t)
			if answer.Err != nil {
				found.Err = answer.Err
			}
			for _, d := range answer.Value {
				if looksLikeController(d) {
					found.Value = append(found.Value, d)
				}
			}
		}
		searched = "in namespace " + strings.Join(namespaces, " or ")
	}
	search(opts.ControllerNamespace)
	if opts.ControllerNamespace != "" {
		return found, searched
	}
	if found.Err != nil && found.Err.forbidden() {
		search(defaultControllerNamespace, opts.Namespace)
		return found, searched
	}
	return found, "in any namespace"
}

// gatherRouterAccess asks whether the controller may do what a router does.
func gatherRouterAccess(ctx context.Context, c *cluster, s snapshot, of pluginSnapshot) []access {
	if s.controller.deployment == nil {
		return nil
	}
	item := of.item(s.controller)
	needs := kedifyNeeds(s.namespace, watchNamespace(item), selfHeals(item))
	if of.isGateway() {
		needs = gatewayNeeds(s.namespace, watchNamespace(item), routesOf(s, of.name))
	}
	return gatherAccess(ctx, c, s.controller.deployment, needs)
}
