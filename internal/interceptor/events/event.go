package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

const (
	component = "interceptor"
	// mostName and mostMessage are limits of the API server, in bytes.
	mostName    = 253
	mostMessage = 1024
)

// eventOf returns the Event for a problem. Only its times differ from one interceptor
// to another.
func eventOf(p routes.Problem, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Object.Namespace, Name: nameOf(p)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: httpv1alpha1.GroupVersion.String(), Kind: "HTTPScaledObject",
			Namespace: p.Object.Namespace, Name: p.Object.Name, UID: p.UID,
		},
		Type: corev1.EventTypeWarning, Reason: string(p.Reason), Message: cut(p.Message, mostMessage),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      at, LastTimestamp: at, Count: 1,
	}
}

// nameOf returns the name of the Event of a problem: the object's name, as far as it
// fits, and a hash of the object's UID and the problem.
func nameOf(p routes.Problem) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(p.UID), string(p.Reason), p.Field, p.Message}, "\x00")))
	hash := hex.EncodeToString(sum[:8])
	// Before a dot, a name may not end in "-" or ".", as a name that was cut may.
	return strings.TrimRight(cut(p.Object.Name, mostName-1-len(hash)), "-.") + "." + hash
}

// cut shortens a text to most bytes, without cutting a character in two.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
