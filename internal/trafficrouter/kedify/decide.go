package kedify

import (
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// present holds the values of the two annotations of an HTTPScaledObject, nil where absent.
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

// keysOtherThan returns the keys of the annotations that are there and differ from want.
func (p present) keysOtherThan(want present) (keys []string) {
	if p.split != nil && !equal(p.split, want.split) {
		keys = append(keys, weightedbackends.Annotation)
	}
	if p.owner != nil && !equal(p.owner, want.owner) {
		keys = append(keys, weightedbackends.OwnerAnnotation)
	}
	return keys
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

// decide returns the decision that an object is to carry the annotations in want.
func decide(object *metav1.PartialObjectMetadata, want present) decision {
	now := presentIn(object.Annotations)
	if equal(now.split, want.split) && equal(now.owner, want.owner) {
		return decision{Object: object}
	}
	d := decision{Object: object.DeepCopy(), Changed: true, From: now.String(), To: want.String()}
	set := func(key string, value *string) {
		delete(d.Object.Annotations, key)
		if value != nil {
			metav1.SetMetaDataAnnotation(&d.Object.ObjectMeta, key, *value)
		}
	}
	set(weightedbackends.Annotation, want.split)
	set(weightedbackends.OwnerAnnotation, want.owner)
	return d
}

// wanted returns the annotations for the split of a Rollout.
func wanted(rollout string, split []weightedbackends.Backend) present {
	if split == nil {
		return present{}
	}
	text := weightedbackends.Format(split)
	return present{split: &text, owner: &rollout}
}

// released returns the annotations of an object whose Rollout does not use it any more, so
// that all requests go to that Rollout's stable Service: none, unless the split's stable
// Service is not the one in scaleTargetRef. That is so with pingPong, where the other
// Service may have no pods any more.
func released(text, service string) present {
	split, err := weightedbackends.Parse(text)
	if err != nil || split[0].Service == service {
		return present{}
	}
	total := int32(0)
	for _, b := range split {
		total += b.Weight
	}
	text = weightedbackends.Format([]weightedbackends.Backend{{Service: split[0].Service, Weight: total}})
	return present{split: &text}
}

// canaryIn returns the weight of a Rollout's canary in a split: that of its canary Service,
// or of all Services but the stable one if the split does not have it. A split that cannot
// be parsed may give the canary anything: the interceptor goes on serving the previous one.
func canaryIn(text string, ro *v1alpha1.Rollout) (weight int32) {
	split, err := weightedbackends.Parse(text)
	if err != nil {
		return rolloutspec.MaxWeight(ro)
	}
	stable, canary := rolloutspec.Services(ro)
	for _, b := range split {
		switch b.Service {
		case stable:
		case canary:
			return b.Weight
		default:
			weight += b.Weight
		}
	}
	return weight
}

func equal(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
