package e2etest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitEvent waits for an Event on the object of a kind and name that has the
// reason (any, when empty) and whose message contains every one of the parts.
func (n *Namespace) AwaitEvent(kind, name, reason string, parts ...string) corev1.Event {
	n.t.Helper()
	var found corev1.Event
	what := fmt.Sprintf("event %s on %s %s with %q", reason, kind, name, parts)
	Eventually(n.t, Patience, what, func(ctx context.Context) error {
		events, err := n.Kube.CoreV1().Events(n.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range events.Items {
			if event.InvolvedObject.Kind != kind || event.InvolvedObject.Name != name {
				continue
			}
			if (reason == "" || event.Reason == reason) && ContainsAll(event.Message, parts) {
				found = event
				return nil
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("seen were only:\n  %s", strings.Join(seen, "\n  "))
	})
	return found
}

// ContainsAll says whether a text contains all of the parts.
func ContainsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// LineWith says whether a line of a text contains all of the parts.
func LineWith(text string, parts ...string) bool {
	for line := range strings.Lines(text) {
		if ContainsAll(line, parts) {
			return true
		}
	}
	return false
}

// LinesWith returns the lines of a text that contain a word.
func LinesWith(text, word string) string {
	var found strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found.WriteString(line)
		}
	}
	return found.String()
}
