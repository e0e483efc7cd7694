package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The names under which Argo Rollouts' own manifests install the controller.
const (
	defaultControllerNamespace = "argo-rollouts"
	defaultControllerName      = "argo-rollouts"
	nameLabel                  = "app.kubernetes.io/name"
	componentLabel             = "app.kubernetes.io/component"
	controllerComponent        = "rollouts-controller"
)

// looksLikeController tells the controller from the dashboard, which Argo's
// manifests and chart give the same name label.
func looksLikeController(d deployment) bool {
	if component, found := d.Labels[componentLabel]; found {
		return component == controllerComponent
	}
	return d.Name == defaultControllerName || d.Labels[nameLabel] == defaultControllerName
}

// chooseController returns the controller that serves a namespace: one that is
// bound to it (--namespaced), else one that serves them all, in the usual
// namespace if there is a choice. Nil when there is none.
func chooseController(candidates []deployment, namespace string) *deployment {
	rank := func(d *deployment) int {
		switch {
		case namespaced(d) && d.Namespace == namespace:
			return 3
		case namespaced(d):
			return 0
		case d.Namespace == defaultControllerNamespace:
			return 2
		default:
			return 1
		}
	}
	var best *deployment
	for i := range candidates {
		if d := &candidates[i]; rank(d) > 0 && (best == nil || rank(d) > rank(best)) {
			best = d
		}
	}
	return best
}

func namespaced(d *deployment) bool {
	container := controllerContainer(d)
	return slices.Contains(container.Args, "--namespaced") || slices.Contains(container.Command, "--namespaced") ||
		slices.Contains(container.Args, "--namespaced=true")
}

// controllerContainer returns the container that runs the controller: the one with its usual
// name, else the first.
func controllerContainer(d *deployment) corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == defaultControllerName }); i >= 0 {
		return containers[i]
	}
	if len(containers) > 0 {
		return containers[0]
	}
	return corev1.Container{}
}

// configNamespaceOf returns where a controller looks for its ConfigMap: in
// POD_NAMESPACE if that is set, else in its own namespace.
func configNamespaceOf(d *deployment) string {
	for _, env := range controllerContainer(d).Env {
		if env.Name == "POD_NAMESPACE" && env.Value != "" {
			return env.Value
		}
	}
	return d.Namespace
}

// name returns "namespace" and "deploy/name" of the controller for commands,
// the usual ones if it was not found.
func (c controllerSnapshot) name() (namespace, workload string) {
	if c.deployment == nil {
		return c.configNamespace, "deploy/" + defaultControllerName
	}
	return c.deployment.Namespace, "deploy/" + c.deployment.Name
}

func (c controllerSnapshot) restartCommand() string {
	namespace, workload := c.name()
	return fmt.Sprintf("kubectl -n %s rollout restart %s", namespace, workload)
}

// logCommand returns the command that shows the controller's log.
func (c controllerSnapshot) logCommand(pattern string) string {
	namespace, workload := c.name()
	return fmt.Sprintf(`kubectl -n %s logs %s | grep -i "%s"`, namespace, workload, pattern)
}

// serviceAccountOf returns the ServiceAccount of a Deployment's pods.
func serviceAccountOf(d *deployment) (namespace, name string) {
	name = d.Spec.Template.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	return d.Namespace, name
}
