package kedify

import (
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const written = "- service: app-stable\n  weight: 80\n- service: app-canary\n  weight: 20\n"

func having(annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", Annotations: annotations}}
}

// carrying are annotations with a split and its owner, either of which may be missing.
func carrying(split, owner string) map[string]string {
	all := map[string]string{"other": "tool"}
	if split != "" {
		all[weightedbackends.Annotation] = split
	}
	if owner != "" {
		all[weightedbackends.OwnerAnnotation] = owner
	}
	return all
}

func TestDecide(t *testing.T) {
	at := trafficrouter.Weights{Stable: 80, Canary: 20}
	ours := carrying(written, "app")
	tests := map[string]struct {
		now     map[string]string
		weights *trafficrouter.Weights
		change  func(*v1alpha1.Rollout)
		want    map[string]string
		foreign string
	}{
		"nothing there, nothing wanted":     {now: nil, weights: &trafficrouter.Weights{}},
		"nothing there":                     {now: carrying("", ""), weights: &at, want: ours},
		"as wanted":                         {now: ours, weights: &at, want: ours},
		"other weights":                     {now: carrying("- service: s\n  weight: 1\n", "app"), weights: &at, want: ours},
		"same split in another form":        {now: carrying("[{service: app-stable, weight: 80}, {service: app-canary, weight: 20}]", "app"), weights: &at, want: ours},
		"malformed":                         {now: carrying("{", "app"), weights: &at, want: ours},
		"no owner":                          {now: carrying(written, ""), weights: &at, want: ours},
		"another owner":                     {now: carrying(written, "old"), weights: &at, foreign: "demo/old"},
		"another owner at rest":             {now: carrying(written, "old"), weights: &trafficrouter.Weights{}, foreign: "demo/old"},
		"another owner without a split":     {now: carrying("", "old"), weights: &at, want: ours},
		"removed":                           {now: ours, weights: &trafficrouter.Weights{}, want: carrying("", "")},
		"removed without owner":             {now: carrying(written, ""), weights: &trafficrouter.Weights{}, want: carrying("", "")},
		"owner left behind by another tool": {now: carrying("", "app"), weights: &trafficrouter.Weights{}, want: carrying("", "")},
		"at rest with pingPong": {now: carrying("", ""), weights: &trafficrouter.Weights{}, change: func(ro *v1alpha1.Rollout) { pingPong(ro, v1alpha1.PPPong) },
			want: carrying(pingSplit("app-pong", 100, "app-ping", 0), "app")},
		"with an experiment": {now: ours, weights: &trafficrouter.Weights{Stable: 75, Canary: 20, Experiments: []v1alpha1.WeightDestination{{ServiceName: "exp", Weight: 5}}},
			want: carrying("- service: app-stable\n  weight: 75\n- service: app-canary\n  weight: 20\n- service: exp\n  weight: 5\n", "app")},
		"a call that is not about weights": {now: carrying("{", "old"), want: carrying("{", "old")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ro := app("app", named)
			if tc.change != nil {
				tc.change(ro)
			}
			object := having(tc.now)
			before := object.DeepCopy()
			d, err := backend{}.Decide(t.Context(), &trafficrouter.Plan{Rollout: ro, Weights: tc.weights}, target{Ref: queryFor("demo", "app").Ref(), Object: object})
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the object itself was changed (-want +got):\n%s", diff)
			}
			var foreign *trafficrouter.ForeignError
			if errors.As(err, &foreign) != (tc.foreign != "") || foreign != nil && foreign.Owner.Rollout.String() != tc.foreign {
				t.Fatalf("error %v, want one about %q", err, tc.foreign)
			}
			if tc.foreign != "" {
				return
			}
			if diff := cmp.Diff(tc.want, d.Object.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if want := !cmp.Equal(tc.now, tc.want); d.Changed != want {
				t.Errorf("changed: %t, want %t", d.Changed, want)
			}
		})
	}
}

func TestReleased(t *testing.T) {
	for name, tc := range map[string]struct{ split, service, want string }{
		"the stable Service is that of the object": {split: written, service: "app-stable"},
		"it is another": {split: written, service: "app", want: "- service: app-stable\n  weight: 100\n"},
		"unreadable":    {split: "{", service: "app"},
	} {
		want := present{}
		if tc.want != "" {
			want.split = &tc.want
		}
		if diff := cmp.Diff(want, released(tc.split, tc.service), cmp.AllowUnexported(present{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		now    map[string]string
		canary int32
		ok     bool
	}{
		"nothing":                   {now: carrying("", "app")},
		"its own":                   {now: carrying(written, "app"), canary: 20, ok: true},
		"without an owner":          {now: carrying(written, ""), canary: 20, ok: true},
		"another Rollout's":         {now: carrying(written, "other")},
		"unreadable":                {now: carrying("{", "app"), canary: 100, ok: true},
		"all for stable":            {now: carrying("- service: app-stable\n  weight: 100\n", "app"), ok: true},
		"the canary was another":    {now: carrying("- service: app-stable\n  weight: 70\n- service: old\n  weight: 30\n", "app"), canary: 30, ok: true},
		"an experiment has a share": {now: carrying(written+"- service: exp\n  weight: 5\n", "app"), canary: 20, ok: true},
	} {
		if canary, ok := (backend{}).InPlace(having(tc.now), app("app", named)); canary != tc.canary || ok != tc.ok {
			t.Errorf("%s: %d, %t, want %d, %t", name, canary, ok, tc.canary, tc.ok)
		}
	}
}
