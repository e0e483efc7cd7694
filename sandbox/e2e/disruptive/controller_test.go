package disruptive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// The guide's commands.
const (
	restart   = "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts"
	restarted = "kubectl -n argo-rollouts rollout status deploy/argo-rollouts --timeout=110s"
)

// restartController restarts the controller and waits until the new one is all
// there is.
func restartController(t *testing.T) corev1.Pod {
	t.Helper()
	e2etest.Shell(t, restart)
	e2etest.Shell(t, restarted)
	return awaitController(t)
}

// awaitController waits until there is one pod of the controller, and it is
// ready.
func awaitController(t *testing.T) corev1.Pod {
	t.Helper()
	var ready corev1.Pod
	c := e2etest.Connect(t)
	e2etest.Eventually(t, e2etest.Patience, "one controller, ready", func(ctx context.Context) error {
		pods, err := controllerPods(ctx, c)
		if err != nil {
			return err
		}
		if len(pods) != 1 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		ready = pods[0]
		for _, status := range ready.Status.ContainerStatuses {
			if !status.Ready {
				return fmt.Errorf("pod %s is not ready: %+v", ready.Name, status.State)
			}
		}
		if len(ready.Status.ContainerStatuses) == 0 {
			return errors.New("it has not started")
		}
		return nil
	})
	return ready
}

func controllerPods(ctx context.Context, c *e2etest.Cluster) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(e2etest.ControllerNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// controllerLog returns the log of the present controller, and, where its
// container was restarted, of the run before.
func controllerLog(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	log := e2etest.Shell(t, "kubectl -n argo-rollouts logs "+pod.Name)
	if e2etest.Restarts(pod) > 0 {
		log = e2etest.Shell(t, "kubectl -n argo-rollouts logs --previous "+pod.Name) + log
	}
	return log
}

// config is the plugin's entry in the ConfigMap, as YAML.
func config(t *testing.T) string {
	t.Helper()
	c := e2etest.Connect(t)
	configMap, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).Get(t.Context(), e2etest.ControllerConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return configMap.Data["trafficRouterPlugins"]
}

// setConfig changes the data of the ConfigMap by a merge patch of JSON.
func setConfig(t *testing.T, data string) {
	t.Helper()
	if err := trySetConfig(t.Context(), e2etest.Connect(t), data); err != nil {
		t.Fatal(err)
	}
}

func trySetConfig(ctx context.Context, c *e2etest.Cluster, data string) error {
	_, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).
		Patch(ctx, e2etest.ControllerConfigMap, types.MergePatchType, []byte(`{"data":`+data+`}`), metav1.PatchOptions{FieldManager: "e2e"})
	return err
}

// setPlugins replaces the list of traffic router plugins.
func setPlugins(t *testing.T, list string) {
	t.Helper()
	setConfig(t, `{"trafficRouterPlugins":`+jsonText(t, list)+`}`)
}

// keepConfig puts the ConfigMap back, and restarts the controller, when the
// test ends; it returns the plugin's entry.
func keepConfig(t *testing.T) string {
	t.Helper()
	before := config(t)
	if !strings.Contains(before, "kedify/http") {
		t.Fatalf("the cluster is not as it should be; the ConfigMap holds:\n%s", before)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), e2etest.Patience)
		defer cancel()
		c := e2etest.Connect(t)
		configMap, err := c.Kube.CoreV1().ConfigMaps(e2etest.ControllerNamespace).Get(ctx, e2etest.ControllerConfigMap, metav1.GetOptions{})
		if err == nil && configMap.Data["trafficRouterPlugins"] == before && !t.Failed() {
			return // the test has put it back, and restarted the controller
		}
		err = errors.Join(err, trySetConfig(ctx, c, `{"trafficRouterPlugins":`+jsonText(t, before)+`}`))
		for _, line := range []string{restart, restarted} {
			_, failed := e2etest.TryShell(ctx, line)
			err = errors.Join(err, failed)
		}
		if err != nil {
			t.Errorf("putting the ConfigMap back: %v", err)
		}
	})
	return before
}

// jsonText quotes a text for JSON.
func jsonText(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}
