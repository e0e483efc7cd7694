package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkController: the Argo Rollouts controller is there, and runs.
func checkController(c controllerSnapshot) []Result {
	install := "install Argo Rollouts, or say where it runs with --controller-namespace"
	if c.deployment == nil {
		if c.found.Err != nil && !c.found.Err.notFound() {
			return []Result{couldNotLook("Deployment "+defaultControllerName, c.found.Err)}
		}
		if n := len(c.found.Value); n > 0 {
			return []Result{failure("Deployment "+defaultControllerName,
				"every Argo Rollouts controller here is bound to another namespace (--namespaced): "+deploymentNames(c.found.Value), install)}
		}
		return []Result{failure("Deployment "+defaultControllerName, "no Argo Rollouts controller "+c.searched, install)}
	}
	at := object("Deployment", c.deployment.Namespace, c.deployment.Name)
	namespace, workload := c.name()
	if replicas := c.deployment.Spec.Replicas; replicas != nil && *replicas == 0 {
		return []Result{failure(at, "is scaled to 0 replicas: nothing drives Rollouts", fmt.Sprintf("kubectl -n %s scale %s --replicas=1", namespace, workload))}
	}
	if c.pods.Err != nil {
		return []Result{couldNotLook(at, c.pods.Err)}
	}
	pods := livePods(c.pods.Value)
	if len(pods) == 0 {
		return []Result{failure(at, "has no pod"+because(c.deployment.Status.podsRefused()), fmt.Sprintf("kubectl -n %s describe %s", namespace, workload))}
	}
	var results []Result
	healthy := 0
	for _, pod := range pods {
		if podReady(pod) && !recentlyFailed(pod, c.container().Name, c.now) {
			healthy++
		}
	}
	for _, pod := range pods {
		results = append(results, c.checkPod(pod, healthy > 0)...)
	}
	others := slices.DeleteFunc(slices.Clone(c.found.Value), func(d deployment) bool {
		return d.Namespace == c.deployment.Namespace && d.Name == c.deployment.Name || namespaced(&d) && d.Namespace != c.deployment.Namespace
	})
	if len(others) > 0 && !namespaced(c.deployment) {
		results = append(results, warning(at, "there are other controllers that may serve this namespace: "+deploymentNames(others), "say which one to check with --controller-namespace"))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "is running"))
	}
	return results
}

// checkPod reports a pod of the controller that does not run as it should.
func (c controllerSnapshot) checkPod(pod corev1.Pod, another bool) []Result {
	at := object("Pod", pod.Namespace, pod.Name)
	container := c.container().Name
	status := containerStatus(pod, container)
	logs := c.logs[pod.Name]
	line := startupProblem(logs)
	remedy := c.startupRemedy(line)
	switch {
	case crashing(status):
		message := "the controller stops soon after it starts (" + lastExit(status) + ")"
		if line != "" {
			message += ": " + line
		}
		if another {
			message += "; the older pod keeps running with the configuration it started with"
		}
		return []Result{failure(at, message, remedy)}
	case podReady(pod) && recentlyFailed(pod, container, c.now):
		message := fmt.Sprintf("runs, but was restarted %s (%s)", count(int(status.RestartCount), "time"), lastExit(status)) + because(lastFatal(logs))
		return []Result{warning(at, message, "see why: "+c.previousLogCommand(pod.Name))}
	case podReady(pod):
		return nil
	}
	message := "is not ready: " + podProblem(pod)
	if another {
		return []Result{warning(at, message+"; another pod is", "wait for it, or: "+fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name))}
	}
	return []Result{failure(at, message, fmt.Sprintf("kubectl -n %s describe pod %s; %s", pod.Namespace, pod.Name, c.logCommand("plugin")))}
}

func (c controllerSnapshot) previousLogCommand(pod string) string {
	namespace, _ := c.name()
	return fmt.Sprintf(`kubectl -n %s logs --previous %s | grep -i "plugin"`, namespace, pod)
}

// startupProblem returns the line of a log that says why the controller
// stopped: the last fatal one, else the last error about a plugin, else the
// last line about a plugin.
func startupProblem(log []string) string {
	if line := lastFatal(log); line != "" {
		return line
	}
	aboutPlugin := func(line string) bool { return strings.Contains(strings.ToLower(line), "plugin") }
	if line := lastLine(log, func(e logEntry, line string) bool { return e.level == "error" && aboutPlugin(line) }); line != "" {
		return line
	}
	return lastLine(log, func(_ logEntry, line string) bool { return aboutPlugin(line) })
}

// lastFatal returns the last line with which the controller gave up.
func lastFatal(log []string) string {
	return lastLine(log, func(e logEntry, _ string) bool { return e.level == "fatal" || e.level == "panic" })
}

// lastLine returns the message of the last line that matches, or "".
func lastLine(log []string, match func(entry logEntry, line string) bool) string {
	for _, line := range slices.Backward(log) {
		if entry := parseLogLine(line); match(entry, line) {
			return entry.message
		}
	}
	return ""
}

// startupRemedy says what to do about the line with which the controller stopped.
func (c controllerSnapshot) startupRemedy(line string) string {
	edit := fmt.Sprintf("kubectl -n %s edit configmap %s", c.configNamespace, configMapName)
	contains := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
	}
	switch {
	case contains("sha256"):
		return "the file at the location is not the one that sha256 pins: paste the asset's line of checksums.txt (compare with `check --download`): " + edit
	case contains("no such host", "i/o timeout", "connection refused", "context deadline exceeded", "network is unreachable", "x509"):
		return "the controller's network does not reach the location: mirror the binary where it does, and update location: " + edit
	case contains("failed to download"):
		return "see whether the location is right (`check --download` fetches it): " + edit
	case contains("text file busy"):
		return "an orphaned plugin process holds the binary: delete the pod so that it starts on a fresh disk: " + c.deletePodsCommand()
	case contains("failed to copy", "failed to get file stat", "stat file"):
		return "the file:// location does not exist in the controller's container: look at the init container that puts it there; " + edit
	case contains("unmarshal", "in the format of", "parse plugin location", "scheme"):
		return "correct the ConfigMap: " + edit + ", then " + c.restartCommand()
	}
	return "see the rest of its log: " + c.logCommand("plugin")
}

func (c controllerSnapshot) deletePodsCommand() string {
	namespace, _ := c.name()
	return fmt.Sprintf("kubectl -n %s delete pod -l %s", namespace, metav1.FormatLabelSelector(c.deployment.Spec.Selector))
}

func deploymentNames(deployments []deployment) string {
	names := make([]string, len(deployments))
	for i, d := range deployments {
		names[i] = d.Namespace + "/" + d.Name
	}
	return strings.Join(names, ", ")
}

// because appends a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// checkRestarted: the controller started after the last change of the ConfigMap,
// which it reads only at its start.
func checkRestarted(c controllerSnapshot) []Result {
	if c.deployment == nil || c.config.Err != nil || c.config.Value == nil || c.pods.Err != nil {
		return nil
	}
	at := object("Deployment", c.deployment.Namespace, c.deployment.Name)
	var oldest time.Time
	for _, pod := range livePods(c.pods.Value) {
		status := containerStatus(pod, c.container().Name)
		if status == nil || status.State.Running == nil {
			continue
		}
		if started := status.State.Running.StartedAt.Time; oldest.IsZero() || started.Before(oldest) {
			oldest = started
		}
	}
	if oldest.IsZero() {
		return nil
	}
	changed := fieldChanged(c.config.Value.ObjectMeta, "data")
	if changed.After(oldest) {
		return []Result{failure(at,
			fmt.Sprintf("the controller started at %s, and %s changed after that, at %s: it reads it only at its start", stamp(oldest), c.configObject(), stamp(changed)),
			c.restartCommand())}
	}
	return []Result{ok(at, fmt.Sprintf("started at %s, after the last change of %s", stamp(oldest), c.configObject()))}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// fieldChanged returns when a field, such as the data of a ConfigMap, was last written, as
// far as managedFields tell; labels and annotations do not count.
func fieldChanged(meta metav1.ObjectMeta, field string) time.Time {
	var last time.Time
	for _, entry := range meta.ManagedFields {
		if entry.Time == nil || entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.Raw), `"f:`+field+`"`) {
			continue
		}
		if entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	if last.IsZero() {
		return meta.CreationTimestamp.Time
	}
	return last
}
