package kedify

import (
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// present holds the current values of the two annotations of an HTTPScaledObject, nil
// where absent.
type present struct {
	split *string
	owner *string
}

// presentIn reads the two annotations.
func presentIn(annotations map[string]string) present {
	value := func(key string) *string {
		if v, ok := annotations[key]; ok {
			return &v
		}
		return nil
	}
	return present{split: value(weightedbackends.Annotation), owner: value(weightedbackends.OwnerAnnotation)}
}

// ownerOtherThan returns the owner of the split, if that is not the Rollout with this
// name, else "". A split without owner, written by hand or by a plugin that names none,
// belongs to the Rollout that names the HTTPScaledObject. An owner without a split owns
// nothing.
func (p present) ownerOtherThan(rollout string) string {
	if p.split == nil || p.owner == nil || *p.owner == rollout {
		return ""
	}
	return *p.owner
}

// String describes the split for people: "stable=80,canary=20", "none", or the
// text itself where it cannot be read.
func (p present) String() string {
	if p.split == nil {
		return weightedbackends.Describe(nil)
	}
	backends, err := weightedbackends.Parse(*p.split)
	if err != nil {
		const most = 200
		if len(*p.split) > most {
			return fmt.Sprintf("%q…", (*p.split)[:most])
		}
		return *p.split
	}
	return weightedbackends.Describe(backends)
}

// decide returns the annotations to write so that an object whose annotations are now
// carries the split of rollout; a nil value removes an annotation. It returns nil when
// there is nothing to change. Whether another Rollout owns the present split is checked
// elsewhere, by mayChange.
func decide(now present, rollout string, split []weightedbackends.Backend) map[string]*string {
	want := present{}
	if split != nil {
		text := weightedbackends.Format(split)
		want = present{split: &text, owner: &rollout}
	}
	if equal(now.split, want.split) && equal(now.owner, want.owner) {
		return nil
	}
	return map[string]*string{
		weightedbackends.Annotation:      want.split,
		weightedbackends.OwnerAnnotation: want.owner,
	}
}

// released returns the annotations to write to an object whose Rollout is gone, so that
// all requests go to that Rollout's stable Service: both annotations are removed,
// unless the split's stable Service is not the one in scaleTargetRef. That is so with
// pingPong, where the other Service may have no pods any more.
func released(now present, service string) map[string]*string {
	change := map[string]*string{weightedbackends.Annotation: nil, weightedbackends.OwnerAnnotation: nil}
	split, err := weightedbackends.Parse(*now.split)
	if err != nil || split[0].Service == service {
		return change
	}
	total := int32(0)
	for _, b := range split {
		total += b.Weight
	}
	text := weightedbackends.Format([]weightedbackends.Backend{{Service: split[0].Service, Weight: total}})
	change[weightedbackends.Annotation] = &text
	return change
}

func equal(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
