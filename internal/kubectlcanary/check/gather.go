package check

import (
	"context"
	"fmt"
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
		wg.Go(func() { s.proxies = gatherProxies(ctx, c, opts, s.objects) })
		asked := snapshot{namespace: s.namespace, rollout: s.rollout, objects: s.objects}
		wg.Go(func() { s.gateway = gatherGateway(ctx, c, asked) })
		wg.Go(func() { s.scalers = gatherScalers(ctx, c, asked) })
		wg.Go(func() { s.agent = gatherAgent(ctx, c, asked) })
		s.keda = gatherKEDA(ctx, c, opts, s.objects)
	})
	wg.Wait()
	routers := routersToCheck(s.controller, rolloutsToCheck(s))
	s.steps.programs = stepPrograms(s)
	known := s // a copy for the reads below, which write to s
	s.plugins = make([]pluginSnapshot, len(routers))
	for i, of := range routers {
		wg.Go(func() { s.plugins[i] = gatherPlugin(ctx, c, known, of) })
	}
	wg.Go(func() {
		withPresets := known
		withPresets.steps.presets = gatherPresets(ctx, c, known)
		wg.Go(func() { s.steps.regions = gatherRegions(ctx, c, withPresets) })
		s.steps.access = gatherStepAccess(ctx, c, withPresets)
		s.steps.presets = withPresets.steps.presets
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
	wg.Go(func() { n.rollouts = list[v1alpha1.Rollout](ctx, c, at("argoproj.io", "v1alpha1", "rollouts")) })
	wg.Go(func() {
		n.httpScaledObjects = list[httpScaledObject](ctx, c, at("http.keda.sh", "v1alpha1", "httpscaledobjects"))
	})
	wg.Go(func() { n.scaledObjects = list[scaledObject](ctx, c, at("keda.sh", "v1alpha1", "scaledobjects")) })
	wg.Go(func() { n.services = list[corev1.Service](ctx, c, at("", "v1", "services")) })
	wg.Go(func() {
		n.endpointSlices = list[endpointSlice](ctx, c, at("discovery.k8s.io", "v1", "endpointslices"))
	})
	wg.Go(func() { n.replicaSets = list[replicaSet](ctx, c, at("apps", "v1", "replicasets")) })
	wg.Go(func() { n.pods = list[corev1.Pod](ctx, c, at("", "v1", "pods")) })
	wg.Go(func() {
		events := at("", "v1", "events")
		events.query = map[string]string{"fieldSelector": "reason=TrafficRoutingError,involvedObject.kind=Rollout"}
		n.events = list[corev1.Event](ctx, c, events)
	})
	wg.Wait()
	return n
}

// findDeployments lists Deployments by each selector in turn, in the given
// namespaces, or in all when there is none, until one finds what keep accepts.
// Where listing all is forbidden it looks in the fallback namespaces.
func findDeployments(ctx context.Context, c *cluster, namespaces, fallback, selectors []string, keep func(deployment) bool) (found read[[]deployment], searched string) {
	everywhere := len(namespaces) == 0
	if everywhere {
		namespaces = []string{""}
	}
	search := func(namespaces []string) {
		for _, selector := range selectors {
			for _, namespace := range namespaces {
				t := target{group: "apps", version: "v1", resource: "deployments", namespace: namespace}
				if selector != "" {
					t.query = map[string]string{"labelSelector": selector}
				}
				answer := list[deployment](ctx, c, t)
				if answer.Err != nil {
					found.Err = answer.Err
					continue
				}
				for _, d := range answer.Value {
					if keep(d) {
						found.Value = append(found.Value, d)
					}
				}
			}
			if len(found.Value) > 0 {
				return
			}
		}
	}
	search(namespaces)
	if everywhere && found.Err != nil && found.Err.forbidden() {
		found, namespaces, everywhere = read[[]deployment]{}, fallback, false
		search(namespaces)
	}
	if len(found.Value) > 0 {
		found.Err = nil
	}
	if everywhere {
		return found, "in any namespace"
	}
	return found, "in namespace " + strings.Join(namespaces, " or ")
}

func gatherController(ctx context.Context, c *cluster, opts Options) controllerSnapshot {
	s := controllerSnapshot{configNamespace: defaultControllerNamespace, nodes: map[string]read[corev1.Node]{}, logs: map[string][]string{}}
	var namespaces []string
	if opts.ControllerNamespace != "" {
		namespaces = []string{opts.ControllerNamespace}
		s.configNamespace = opts.ControllerNamespace
	}
	fallback := []string{defaultControllerNamespace}
	if opts.Namespace != defaultControllerNamespace {
		fallback = append(fallback, opts.Namespace)
	}
	selectors := []string{componentLabel + "=" + controllerComponent, nameLabel + "=" + defaultControllerName}
	if opts.ControllerNamespace != "" {
		selectors = append(selectors, "") // whatever its labels: its namespace was given
	}
	s.found, s.searched = findDeployments(ctx, c, namespaces, fallback, selectors, looksLikeController)
	s.deployment = chooseController(s.found.Value, opts.Namespace)
	if s.deployment != nil {
		s.configNamespace = configNamespaceOf(s.deployment)
	}
	answer := get[corev1.ConfigMap](ctx, c, target{version: "v1", resource: "configmaps", namespace: s.configNamespace, name: configMapName})
	s.config.Err = answer.Err
	if answer.Err == nil {
		s.config.Value = &answer.Value
	}
	if s.deployment != nil {
		gatherControllerPods(ctx, c, &s)
	}
	return s
}

// gatherPlugin reads what the checks need to know of a router's plugin.
func gatherPlugin(ctx context.Context, c *cluster, s snapshot, of router) pluginSnapshot {
	registered := register(s.controller, of).item
	p := pluginSnapshot{router: of, watchNamespace: watchNamespace(registered), selfHeals: selfHeals(registered)}
	if s.controller.deployment == nil {
		return p
	}
	needs := kedifyNeeds(s.namespace, p.watchNamespace, p.selfHeals)
	if of.isGateway() {
		needs = gatewayNeeds(s.namespace, p.watchNamespace, routesOf(s, of))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		p.binding = get[clusterRoleBinding](ctx, c, target{group: "rbac.authorization.k8s.io", version: "v1", resource: "clusterrolebindings", name: of.role})
	})
	wg.Go(func() { p.access = gatherControllerAccess(ctx, c, s.controller.deployment, needs) })
	wg.Wait()
	return p
}

// maxControllerPods bounds the pods whose logs and nodes are read; a controller has
// one replica, or a few for leader election.
const maxControllerPods = 5

// gatherControllerPods reads the pods, their nodes, and the ends of their logs.
// It writes only the fields pods, nodes, logs and now of s.
func gatherControllerPods(ctx context.Context, c *cluster, s *controllerSnapshot) {
	t := target{version: "v1", resource: "pods", namespace: s.deployment.Namespace}
	t.query = map[string]string{"labelSelector": metav1.FormatLabelSelector(s.deployment.Spec.Selector)}
	s.pods = list[corev1.Pod](ctx, c, t)
	s.now = time.Now()
	pods := livePods(s.pods.Value)
	if len(pods) > maxControllerPods {
		pods = pods[:maxControllerPods]
	}
	container := controllerContainer(s.deployment).Name
	for _, pod := range pods {
		if node := pod.Spec.NodeName; node != "" {
			if _, known := s.nodes[node]; !known {
				s.nodes[node] = get[corev1.Node](ctx, c, target{version: "v1", resource: "nodes", name: node})
			}
		}
		status := containerStatus(pod, container)
		if status == nil {
			continue
		}
		// Logs only explain what other checks find, so that not being allowed
		// to read them is no finding.
		current, err := c.podLog(ctx, pod.Namespace, pod.Name, container, false)
		if err == nil {
			s.logs[pod.Name] = current
		}
		if status.RestartCount > 0 && lastFatal(current) == "" {
			if previous, err := c.podLog(ctx, pod.Namespace, pod.Name, container, true); err == nil {
				s.logs[pod.Name] = append(previous, current...)
			}
		}
	}
}

func gatherControllerAccess(ctx context.Context, c *cluster, controller *deployment, reviews []access) []access {
	serviceAccountNamespace, serviceAccount := serviceAccountOf(controller)
	var wg sync.WaitGroup
	for i := range reviews {
		wg.Go(func() {
			a := &reviews[i]
			resource, group, _ := strings.Cut(a.resource, ".")
			resource, subresource, _ := strings.Cut(resource, "/")
			may := func(verb string) read[bool] {
				return mayDo(ctx, c, serviceAccountNamespace, serviceAccount, resourceAttributes{
					Namespace: a.namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: a.name,
				})
			}
			switch a.allowed = may(a.verb); {
			case a.or == "" || a.allowed.Err != nil:
			case a.allowed.Value:
				a.or = ""
			default:
				if other := may(a.or); other.Err != nil || other.Value {
					a.allowed, a.verb, a.or = other, a.or, ""
				}
			}
		})
	}
	wg.Wait()
	return reviews
}

func gatherKEDA(ctx context.Context, c *cluster, opts Options, n namespaceSnapshot) kedaSnapshot {
	var k kedaSnapshot
	for _, ro := range n.rollouts.Value {
		if opts.Rollout != "" && opts.Rollout != ro.Name {
			continue
		}
		for _, o := range n.scaledObjectsOf(ro.Name) {
			k.wanted = k.wanted || o.needsWebhook()
		}
	}
	if !k.wanted {
		return k
	}
	selectors := []string{nameLabel + "=" + kedaOperator, "app=" + kedaOperator}
	k.found, _ = findDeployments(ctx, c, nil, []string{"keda"}, selectors, func(deployment) bool { return true })
	k.deployment = chooseKEDA(k.found.Value)
	if k.deployment == nil {
		return k
	}
	namespace, name := serviceAccountOf(k.deployment)
	a := access{verb: "get", resource: "rollouts.argoproj.io", namespace: opts.Namespace}
	a.allowed = mayDo(ctx, c, namespace, name, resourceAttributes{
		Namespace: opts.Namespace, Verb: "get", Group: "argoproj.io", Resource: "rollouts",
	})
	k.access = []access{a}
	return k
}

// mayDo asks the API server whether a ServiceAccount may do something. A user who may
// not create a SubjectAccessReview may be allowed a LocalSubjectAccessReview.
func mayDo(ctx context.Context, c *cluster, namespace, serviceAccount string, attributes resourceAttributes) read[bool] {
	review := accessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}}
	review.Spec.ResourceAttributes = attributes
	review.Spec.User = fmt.Sprintf("system:serviceaccount:%s:%s", namespace, serviceAccount)
	review.Spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	reviews := target{group: "authorization.k8s.io", version: "v1", resource: "subjectaccessreviews"}
	answer := create[accessReview](ctx, c, reviews, review)
	if answer.Err == nil || !answer.Err.forbidden() || attributes.Namespace == "" {
		return read[bool]{Value: answer.Value.Status.Allowed, Err: answer.Err}
	}
	review.Kind, review.Metadata.Namespace = "LocalSubjectAccessReview", attributes.Namespace
	reviews.resource, reviews.namespace = "localsubjectaccessreviews", attributes.Namespace
	local := create[accessReview](ctx, c, reviews, review)
	if local.Err != nil {
		return read[bool]{Err: answer.Err}
	}
	return read[bool]{Value: local.Value.Status.Allowed}
}
