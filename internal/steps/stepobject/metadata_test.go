package stepobject

import (
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func workFor(rollout, id string) steps.Work {
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: rollout, UID: "u"}}
	return steps.Work{Rollout: ro, ID: id, Key: "0123456789abcdef0123456789abcdef", Remaining: 5 * time.Minute}
}

// Names and labels are valid for Kubernetes, whatever the Rollout and the step are
// called.
func TestNames(t *testing.T) {
	for _, tt := range []struct{ rollout, id, want string }{
		{"app", "smoke", "app-smoke-0123456789"},
		{"app", "0", "app-0-0123456789"},
		{"shop.frontend", "Smoke_Test", "shop-frontend-smoke-test-0123456789"},
		{"app", "a-", "app-a-0123456789"},
		{strings.Repeat("a", 253), strings.Repeat("b", 63), strings.Repeat("a", 20) + "-" + strings.Repeat("b", 20) + "-0123456789"},
		{strings.Repeat("a", 19) + ".x", strings.Repeat("b", 20), strings.Repeat("a", 19) + "-" + strings.Repeat("b", 20) + "-0123456789"},
		{"app", strings.Repeat("b", 19) + "_x", "app-" + strings.Repeat("b", 19) + "-0123456789"},
		{strings.Repeat("a", 62) + ".b", "x__", strings.Repeat("a", 39) + "-x-0123456789"},
	} {
		work := workFor(tt.rollout, tt.id)
		object := Metadata(work, NameOf(work))
		if object.Name != tt.want || len(object.Name) > NameLimit || len(validation.IsDNS1123Label(object.Name)) > 0 {
			t.Errorf("%s, %s: name %s of %d characters, want %s", tt.rollout, tt.id, object.Name, len(object.Name), tt.want)
		}
		for label, value := range object.Labels {
			if problems := append(validation.IsValidLabelValue(value), validation.IsQualifiedName(label)...); len(problems) > 0 {
				t.Errorf("label %s: %q: %v", label, value, problems)
			}
		}
		undo := NameOf(work, "undo")
		if undo == object.Name || !strings.HasSuffix(undo, "-0123456789-undo") || len(undo) > NameLimit || len(validation.IsDNS1123Label(undo)) > 0 {
			t.Errorf("%s, %s: name %s of another object", tt.rollout, tt.id, undo)
		}
	}
}
