package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// diagnosis says why a side has no ready endpoint.
type diagnosis struct {
	message, remedy string
	// stuck is true when waiting does not help.
	stuck bool
	// asleep is true when the app is scaled to 0 with all traffic on stable:
	// the interceptor holds requests until a pod is up.
	asleep bool
	// wakes is true when the next request starts the app, as KEDA is told of it.
	wakes bool
}

// diagnose looks from the Service to the pods, and from the ReplicaSet to what
// scales it, for the first thing that explains a side without endpoints.
func diagnose(s snapshot, ro *v1alpha1.Rollout, b side, service corev1.Service) diagnosis {
	look := fmt.Sprintf("kubectl -n %s get rs,pods -l %s; kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s", ro.Namespace, selectorText(ro), ro.Namespace, service.Name)
	hash := b.hash
	if selected := service.Spec.Selector[v1alpha1.DefaultRolloutUniqueLabelKey]; selected != "" && b.role != "canary" {
		hash = selected
	}
	rs := s.objects.replicaSet(hash)
	if rs != nil && rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0 {
		return atZero(s, ro, b, rs, look)
	}
	if rs != nil && rs.Status.Replicas == 0 {
		if reason := rs.Status.podsRefused(); reason != "" {
			return diagnosis{message: fmt.Sprintf("ReplicaSet %s cannot make pods: %s", rs.Name, reason), remedy: fmt.Sprintf("kubectl -n %s describe rs %s", ro.Namespace, rs.Name), stuck: true}
		}
	}
	if s.objects.pods.Err != nil {
		return diagnosis{message: "why is not known, " + s.objects.pods.Err.Error(), remedy: look}
	}
	selector := maps.Clone(service.Spec.Selector)
	if !b.selectedBy(service) {
		selector[v1alpha1.DefaultRolloutUniqueLabelKey] = b.hash
	}
	pods := s.objects.podsMatching(selector)
	if len(service.Spec.Selector) == 0 {
		return diagnosis{message: "the Service has no selector", remedy: fmt.Sprintf("select the Rollout's pods: kubectl -n %s edit service %s", ro.Namespace, service.Name), stuck: true}
	}
	if len(pods) == 0 {
		return noPods(s, ro, b, service, rs, look)
	}
	if !b.selectedBy(service) && slices.ContainsFunc(pods, podReady) {
		return diagnosis{message: fmt.Sprintf("the Service still selects %s=%s, not the canary's %s", v1alpha1.DefaultRolloutUniqueLabelKey, service.Spec.Selector[v1alpha1.DefaultRolloutUniqueLabelKey], b.hash),
			remedy: "Argo Rollouts switches it when the canary is available; if it stays so, something takes the selector back (GitOps: ignore differences at /spec/selector)"}
	}
	return notServing(pods, service, look)
}

// atZero says why a ReplicaSet is at 0 replicas.
func atZero(s snapshot, ro *v1alpha1.Rollout, b side, rs *replicaSet, look string) diagnosis {
	message := fmt.Sprintf("ReplicaSet %s is at 0 replicas", rs.Name)
	edit := fmt.Sprintf("kubectl -n %s edit rollout %s", ro.Namespace, ro.Name)
	switch {
	case ro.Spec.Replicas != nil && *ro.Spec.Replicas == 0:
		return scaledToZero(s, ro, b, message)
	case b.role == "canary" && canaryScaleZero(ro):
		return diagnosis{message: message + ", because a setCanaryScale step asks for none", remedy: "give that step replicas or a weight above 0, or follow it with {matchTrafficWeight: true}: " + edit, stuck: true}
	}
	// A weight that cannot be set, 0 included, also keeps the controller from
	// scaling the canary up. A complaint from before the ReplicaSet is out of date.
	if said := lastComplaint(s, ro); said.message != "" && !said.time.Before(rs.CreationTimestamp.Time) {
		namespace, workload := s.controller.name()
		log := fmt.Sprintf("kubectl -n %s logs %s | grep %s", namespace, workload, ro.Name)
		return diagnosis{message: message + "; the controller says: " + said.message, remedy: complaintRemedy(s.controller, ro, said.message, log), stuck: true}
	}
	switch {
	case b.role == "canary" && noSurge(ro):
		return diagnosis{message: message + ": maxSurge is 0 on a Rollout of 1 replica, which leaves no room for a canary pod", remedy: "raise spec.replicas, or maxSurge: " + edit, stuck: true}
	case b.role == "stable" && len(s.objects.scaledObjectsOf(ro.Name)) > 0:
		o := s.objects.scaledObjectsOf(ro.Name)[0]
		return diagnosis{message: fmt.Sprintf("%s; ScaledObject %s has minReplicaCount %d", message, o.Name, o.minReplicas()), stuck: true,
			remedy: fmt.Sprintf("set minReplicaCount to the Rollout's spec.replicas: kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)}
	}
	return diagnosis{message: message + because(ro.Status.Message), remedy: fmt.Sprintf("look at the Rollout's steps and strategy: kubectl argo rollouts -n %s get rollout %s; %s", ro.Namespace, ro.Name, look)}
}

// scaledToZero explains a Rollout that has no replicas at all.
func scaledToZero(s snapshot, ro *v1alpha1.Rollout, b side, message string) diagnosis {
	_, underWay := pendingWeight(ro)
	asleep := b.role == "stable" && !underWay
	d := diagnosis{message: message + ", because the Rollout is scaled to 0", stuck: !asleep, asleep: asleep,
		remedy: fmt.Sprintf("kubectl -n %s scale rollout %s --replicas=1", ro.Namespace, ro.Name)}
	for _, o := range s.objects.scaledObjectsOf(ro.Name) {
		if o.minReplicas() == 0 && len(o.scalerTriggers()) > 0 {
			return diagnosis{message: d.message + fmt.Sprintf(": ScaledObject %s starts it with the next request", o.Name), wakes: true}
		}
		if o.minReplicas() == 0 {
			d.message += fmt.Sprintf(": ScaledObject %s lets KEDA do so with minReplicaCount 0", o.Name)
			d.remedy = fmt.Sprintf("set minReplicaCount to the Rollout's spec.replicas: kubectl -n %s edit scaledobject %s", o.Namespace, o.Name)
		}
	}
	return d
}

// canaryScaleZero tells whether the setCanaryScale step in effect keeps the
// canary at no replicas.
func canaryScaleZero(ro *v1alpha1.Rollout) bool {
	i := ro.Status.CurrentStepIndex
	steps := ro.Spec.Strategy.Canary.Steps
	if i == nil || int(*i) >= len(steps) {
		return false
	}
	for at := int(*i); at >= 0; at-- {
		if scale := steps[at].SetCanaryScale; scale != nil {
			return !scale.MatchTrafficWeight && (scale.Replicas != nil && *scale.Replicas == 0 || scale.Replicas == nil && scale.Weight != nil && *scale.Weight == 0)
		}
	}
	return false
}

// noSurge tells whether the Rollout has one replica and may not have a second.
func noSurge(ro *v1alpha1.Rollout) bool {
	surge := ro.Spec.Strategy.Canary.MaxSurge
	if surge == nil || ro.Spec.Replicas == nil || *ro.Spec.Replicas != 1 {
		return false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(surge, int(*ro.Spec.Replicas), true)
	return err == nil && n == 0
}

// noPods explains a Service whose selector matches no pod.
func noPods(s snapshot, ro *v1alpha1.Rollout, b side, service corev1.Service, rs *replicaSet, look string) diagnosis {
	own := maps.Clone(service.Spec.Selector)
	selected := own[v1alpha1.DefaultRolloutUniqueLabelKey]
	delete(own, v1alpha1.DefaultRolloutUniqueLabelKey)
	if len(s.objects.podsMatching(own)) == 0 && rs != nil && rs.Status.Replicas > 0 {
		return diagnosis{message: fmt.Sprintf("its selector %s matches no pod; ReplicaSet %s has some, labelled otherwise", labelText(own), rs.Name),
			remedy: fmt.Sprintf("correct spec.selector: kubectl -n %s edit service %s", ro.Namespace, service.Name), stuck: true}
	}
	if selected != "" && b.selectedBy(service) && s.objects.replicaSets.Err == nil && s.objects.replicaSet(selected) == nil {
		return diagnosis{message: fmt.Sprintf("its selector asks for %s=%s, of which there is no ReplicaSet", v1alpha1.DefaultRolloutUniqueLabelKey, selected),
			remedy: "something takes the selector back that Argo Rollouts sets; " + look, stuck: true}
	}
	if rs == nil && b.hash != "" && s.objects.replicaSets.Err == nil {
		return diagnosis{message: fmt.Sprintf("there is no ReplicaSet of hash %s yet", b.hash), remedy: look}
	}
	return diagnosis{message: "there are no pods yet", remedy: look}
}

// notServing explains pods that the Service selects but that are no endpoints.
func notServing(pods []corev1.Pod, service corev1.Service, look string) diagnosis {
	d := diagnosis{remedy: look}
	var reasons []string
	ready := 0
	for _, pod := range pods {
		if podReady(pod) {
			ready++
			continue
		}
		if !starting(pod) {
			d.stuck = true
			d.remedy = fmt.Sprintf("kubectl -n %s describe pod %s; kubectl -n %s logs %s", pod.Namespace, pod.Name, pod.Namespace, pod.Name)
		}
		if reason := podProblem(pod); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if ready > 0 {
		if names := missingPortNames(pods, service); len(names) > 0 {
			return diagnosis{message: fmt.Sprintf("targetPort %s is the name of no container port (%s)", strings.Join(names, ", "), containerPorts(pods)),
				remedy: fmt.Sprintf("correct spec.ports: kubectl -n %s edit service %s", service.Namespace, service.Name), stuck: true}
		}
		return diagnosis{message: fmt.Sprintf("%s ready, but no endpoint yet", count(ready, "pod")), remedy: "kube-controller-manager makes EndpointSlices: is it running? " + look}
	}
	d.message = fmt.Sprintf("%s, none ready: %s", count(len(pods), "pod"), strings.Join(reasons, "; "))
	return d
}

// missingPortNames returns the named targetPorts that no container has.
func missingPortNames(pods []corev1.Pod, service corev1.Service) []string {
	var missing []string
	for _, port := range service.Spec.Ports {
		if port.TargetPort.Type != intstr.String || port.TargetPort.StrVal == "" {
			continue
		}
		if !slices.Contains(portNames(pods), port.TargetPort.StrVal) {
			missing = append(missing, fmt.Sprintf("%q", port.TargetPort.StrVal))
		}
	}
	return missing
}

func portNames(pods []corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name != "" && !slices.Contains(names, port.Name) {
					names = append(names, port.Name)
				}
			}
		}
	}
	return names
}

func containerPorts(pods []corev1.Pod) string {
	names := portNames(pods)
	if len(names) == 0 {
		return "they have no name"
	}
	return "there is " + strings.Join(names, ", ")
}

func selectorText(ro *v1alpha1.Rollout) string {
	if ro.Spec.Selector != nil && len(ro.Spec.Selector.MatchLabels) > 0 {
		return labelText(ro.Spec.Selector.MatchLabels)
	}
	return v1alpha1.DefaultRolloutUniqueLabelKey
}
