package rolloutsstep

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Config is the configuration of a step that waits for other Rollouts. It has `names` or a
// `selector`, and not both.
type Config struct {
	// Names are the Rollouts that the step waits for, 200 at most: `checkout` in the Rollout's
	// own namespace, `payments/checkout` in another namespace, which `--allow-namespace` has to
	// allow. The step leaves out the Rollout's own name, so that all Rollouts of a group can
	// have one list. It waits for a Rollout that does not exist.
	Names []string `json:"names,omitempty"`
	// Selector selects the Rollouts that the step waits for, by their labels; `{}` is all of the
	// namespace. It needs list and watch of Rollouts.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Namespaces are the namespaces in which `selector` selects. `--allow-namespace` has to
	// allow others than the Rollout's own.
	//
	// Default: the Rollout's own.
	Namespaces []string `json:"namespaces,omitempty"`
	// Min is how many other Rollouts `selector` has to match; with fewer the step waits. `0`
	// lets a Rollout go on that is alone. With `clusters` it counts in each cluster, and counts
	// this Rollout in its own.
	//
	// Default: `1`.
	Min *int `json:"min,omitempty"`
	// Barrier names the step, so that Rollouts whose steps differ meet at it: letters, digits,
	// `.`, `_` and `-`, 63 at most, with a letter or digit at both ends. The order distinguishes
	// steps of one Rollout with the same name: the first meets the first of the others, the
	// second the second.
	//
	// Default: the name of the preset, or without one the registered name.
	Barrier string `json:"barrier,omitempty"`
	// Clusters are the clusters whose Rollouts the step waits for, 20 at most. Only a preset has
	// them. All clusters can share the preset: the step leaves out this Rollout in its own
	// cluster. Without `names` and `selector`, the step waits for the Rollouts of this Rollout's
	// name and namespace.
	Clusters []Cluster `json:"clusters,omitempty"`
	// Until is what the step waits for in `clusters`. With `Barrier`, all Rollouts go on once
	// all are at the barrier or past it, or are Healthy. With `Promoted`, a Rollout waits until
	// the Rollouts of the clusters before its own in the list are Healthy.
	//
	// Default: `Barrier`.
	Until Until `json:"until,omitempty"`
	// Version is a CEL expression for the version of a Rollout, which has to be the same in all
	// `clusters`. It makes a text, a number or a boolean from `rollout.name`,
	// `rollout.namespace`, `rollout.labels`, `rollout.annotations` (those of up to 128 bytes)
	// and `images.new`.
	//
	// Default: the tag or digest of each container's image, by the container's name.
	Version string `json:"version,omitempty"`
	// OnUnreachable says what follows when one of `clusters` has not answered for a minute:
	// `Wait` waits for the cluster, `Ignore` leaves it out, `Fail` fails the step. With each,
	// the step fails if the plugin saw a failure there before.
	//
	// Default: `Wait`.
	OnUnreachable OnUnreachable `json:"onUnreachable,omitempty"`
}

// Until is Barrier or Promoted.
type Until string

// What is waited for.
const (
	UntilBarrier  Until = "Barrier"
	UntilPromoted Until = "Promoted"
)

// OnUnreachable is Wait, Ignore or Fail.
type OnUnreachable string

// What follows when a cluster does not answer.
const (
	OnUnreachableWait   OnUnreachable = "Wait"
	OnUnreachableIgnore OnUnreachable = "Ignore"
	OnUnreachableFail   OnUnreachable = "Fail"
)

// maxNames bounds how many Rollouts a step waits for by name.
const maxNames = 200

var barrierPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// selection is the Rollouts that a step waits for.
type selection struct {
	names []name
	// selector is nil where there are names.
	selector   labels.Selector
	namespaces []string
	min        int
	// text is the selector for people.
	text string
}

// name is the name of a Rollout. An empty namespace is that of the Rollout that waits.
type name struct{ namespace, name string }

// in returns the name, with namespace filled in if it has none.
func (n name) in(namespace string) name {
	if n.namespace == "" {
		n.namespace = namespace
	}
	return n
}

func (n name) String() string { return n.namespace + "/" + n.name }

// selection returns the Rollouts that the step waits for, or what is wrong with the
// configuration.
func (c *Config) selection() (selection, error) {
	s := selection{min: *cmp.Or(c.Min, new(1))}
	switch {
	case c.Selector != nil && len(c.Names) > 0:
		return s, errors.New("want names or a selector, and not both (a preset may have set the other)")
	case c.Selector == nil && len(c.Names) == 0 && len(c.Clusters) == 0:
		return s, errors.New("names or selector is missing: which Rollouts does the step wait for?")
	case c.Selector == nil && len(c.Namespaces) > 0:
		return s, errors.New("namespaces: these are for a selector; give a name its namespace as in payments/checkout")
	case len(c.Names) > maxNames:
		return s, fmt.Errorf("names: want up to %d, not %d; use a selector", maxNames, len(c.Names))
	case s.min < 0:
		return s, fmt.Errorf("min: want 0 or more, not %d", s.min)
	case c.Min != nil && c.Selector == nil:
		return s, errors.New("min: this is for a selector; each of names is waited for")
	case c.Barrier != "" && !barrierPattern.MatchString(c.Barrier):
		return s, fmt.Errorf(`barrier: want up to 63 letters, digits, ".", "_" and "-", with a letter or digit at both ends, not %q`, c.Barrier)
	}
	for i, text := range c.Names {
		n, err := readName(text)
		if err != nil {
			return s, fmt.Errorf("names[%d]: %w", i, err)
		}
		if !slices.Contains(s.names, n) {
			s.names = append(s.names, n)
		}
	}
	for i, namespace := range c.Namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return s, fmt.Errorf("namespaces[%d]: %q is no name of a namespace", i, namespace)
		}
		if !slices.Contains(s.namespaces, namespace) {
			s.namespaces = append(s.namespaces, namespace)
		}
	}
	if c.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(c.Selector)
		if err != nil {
			return s, fmt.Errorf("selector: %w", err)
		}
		s.selector, s.text = selector, selector.String()
		if selector.Empty() {
			s.text = "{}"
		}
	}
	return s, nil
}

func readName(text string) (name, error) {
	namespace, own, found := strings.Cut(text, "/")
	if !found {
		namespace, own = "", text
	}
	if found && len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(own)) > 0 {
		return name{}, fmt.Errorf("%q: want the name of a Rollout, such as checkout or payments/checkout", text)
	}
	return name{namespace, own}, nil
}
