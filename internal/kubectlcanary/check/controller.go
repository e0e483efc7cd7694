package check

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkController: the Argo Rollouts controller is there, and runs.
func checkController(s snapshot) []Result {
	c := s.controller
	if c.deployment == nil {
		at := "Deployment " + defaultControllerName
		if c.found.Err != nil && !c.found.Err.notFound() {
			return []Result{couldNotLook(at, c.found.Err)}
		}
		return []Result{failure(at, "no Argo Rollouts controller "+c.searched+" serves this namespace", "install Argo Rollouts, or say where it runs with --controller-namespace")}
	}
	at := object("Deployment", c.deployment.Namespace, c.deployment.Name)
	if c.pods.Err != nil {
		return []Result{couldNotLook(at, c.pods.Err)}
	}
	var results []Result
	ready := 0
	for _, pod := range livePods(c.pods.Value) {
		at := object("Pod", pod.Namespace, pod.Name)
		look := fmt.Sprintf("see why, with --previous if it was started again: %s; a new controller reads the ConfigMap: compare plugin-location, plugin-platform and plugin-download (--download)", c.logCommand("plugin"))
		last := lastFailure(pod, c.now.Add(-settled))
		switch {
		case !podReady(pod):
			results = append(results, failure(at, podState(pod), look))
			continue
		case last != nil:
			results = append(results, warning(at, fmt.Sprintf("runs, but ended at %s with exit code %d, and may do so again", stamp(last.FinishedAt.Time), last.ExitCode), look))
		}
		ready++
	}
	if len(results) == 0 && ready == 0 {
		namespace, workload := c.name()
		results = append(results, failure(at, "has no pod"+because(c.deployment.Status.podsRefused())+": nothing drives Rollouts", fmt.Sprintf("kubectl -n %s describe %s; to scale it up: kubectl -n %s scale %s --replicas=1", namespace, workload, namespace, workload)))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "is running"))
	}
	return results
}

// settled is how long a controller has to run until it counts as one that goes on: one without
// a readiness probe is ready while it still tries to download a plugin.
const settled = 2 * time.Minute

// because appends a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// checkRestarted: the controller started after the last change of the ConfigMap,
// which it reads only at its start.
func checkRestarted(s snapshot) []Result {
	c := s.controller
	if c.deployment == nil || c.config.Value == nil || c.pods.Err != nil {
		return nil
	}
	at := object("Deployment", c.deployment.Namespace, c.deployment.Name)
	var oldest time.Time
	for _, pod := range livePods(c.pods.Value) {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name != controllerContainer(c.deployment).Name || status.State.Running == nil {
				continue
			}
			if started := status.State.Running.StartedAt.Time; oldest.IsZero() || started.Before(oldest) {
				oldest = started
			}
		}
	}
	if oldest.IsZero() {
		return nil
	}
	changed := dataChanged(c.config.Value.ObjectMeta)
	if changed.After(oldest) {
		return []Result{failure(at,
			fmt.Sprintf("the controller started at %s, and %s changed after that, at %s: it reads it only at its start", stamp(oldest), c.configObject(), stamp(changed)),
			c.restartCommand())}
	}
	return []Result{ok(at, fmt.Sprintf("started at %s, after the last change of %s", stamp(oldest), c.configObject()))}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// dataChanged returns when the data of a ConfigMap were last written, as far as managedFields
// tell; labels and annotations do not count.
func dataChanged(meta metav1.ObjectMeta) time.Time {
	last := meta.CreationTimestamp.Time
	for _, entry := range meta.ManagedFields {
		if entry.Time != nil && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.Raw), `"f:data"`) && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}
