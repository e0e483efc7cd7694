package e2etest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

const logLines = 200

// describe tells what is in the namespace and what has happened in it, for the output
// of a failed test.
func (n *Namespace) describe(ctx context.Context) string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "namespace %s\n", n.Name)
	section := func(title string, body func() error) {
		_, _ = fmt.Fprintf(&text, "=== %s\n", title)
		if err := body(); err != nil {
			_, _ = fmt.Fprintf(&text, "(not to be had: %v)\n", err)
		}
	}
	section("Rollouts", func() error {
		list, err := n.Rollouts.ArgoprojV1alpha1().Rollouts(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ro := range list.Items {
			ro.ManagedFields = nil
			if err := writeYAML(&text, ro.Name, struct {
				Generation  int64
				Annotations map[string]string
				Strategy    v1alpha1.RolloutStrategy
				Status      v1alpha1.RolloutStatus
			}{ro.Generation, ro.Annotations, ro.Spec.Strategy, ro.Status}); err != nil {
				return err
			}
		}
		return nil
	})
	section("HTTPScaledObjects", func() error {
		list, err := n.Dynamic.Resource(cluster.HTTPScaledObjectGVR).Namespace(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, object := range list.Items {
			if err := writeYAML(&text, object.GetName(), object.Object["metadata"]); err != nil {
				return err
			}
		}
		return nil
	})
	section("Pods", func() error {
		list, err := n.Kube.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			_, _ = fmt.Fprintf(&text, "%s\t%s\t%s\tready=%t\n", pod.Name, pod.Spec.Containers[0].Image, pod.Status.Phase, cluster.PodReady(&pod))
		}
		return nil
	})
	section("Events", func() error {
		list, err := n.Kube.CoreV1().Events(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		slices.SortFunc(list.Items, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
		for _, event := range list.Items {
			if event.InvolvedObject.Kind == "Pod" && event.Type == corev1.EventTypeNormal {
				continue
			}
			_, _ = fmt.Fprintf(&text, "%s\t%s/%s\t%s\t%s (%d times)\n", event.LastTimestamp.Format("15:04:05"),
				event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message, event.Count)
		}
		return nil
	})
	section("controller's log", func() error {
		log, err := n.ControllerLog(ctx)
		if err != nil {
			return err
		}
		var about []string
		for line := range strings.Lines(log) {
			if strings.Contains(line, n.Name) {
				about = append(about, line)
			}
		}
		if len(about) > logLines {
			about = about[len(about)-logLines:]
		}
		text.WriteString(strings.Join(about, ""))
		return nil
	})
	return text.String()
}

func writeYAML(text *strings.Builder, name string, value any) error {
	body, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(text, "--- %s\n%s", name, body)
	return nil
}

// ControllerLog returns the logs of the controller's present containers.
func (c *Cluster) ControllerLog(ctx context.Context) (string, error) {
	pods, err := c.Kube.CoreV1().Pods(ControllerNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		log, err := c.Kube.CoreV1().Pods(ControllerNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("log of pod %s/%s: %w", ControllerNamespace, pod.Name, err)
		}
		text.Write(log)
	}
	return text.String(), nil
}
