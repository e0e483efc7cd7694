package ingress

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// ordered are the rules of all HTTPScaledObjects of a namespace, in the order in which proxies
// try them (docs/reference/requests.md).
type ordered []orderedRule

type orderedRule struct {
	rule
	object *httpv1alpha1.HTTPScaledObject
}

func order(objects []httpv1alpha1.HTTPScaledObject) ordered {
	var all ordered
	for i := range objects {
		for _, r := range rulesOf(objects[i].Spec.Hosts, objects[i].Spec.PathPrefixes) {
			all = append(all, orderedRule{r, &objects[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b orderedRule) int {
		return cmp.Or(
			cmp.Compare(b.specificity(), a.specificity()),
			cmp.Compare(len(b.prefix), len(a.prefix)),
			cmp.Compare(withHeaders(b), withHeaders(a)),
			a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time),
			strings.Compare(a.object.Name, b.object.Name),
		)
	})
	return all
}

// withHeaders is 1 for a rule of an object with headers, however many, and else 0.
func withHeaders(r orderedRule) int { return min(len(r.object.Spec.Headers), 1) }

// specificity orders hosts: names before wildcards, and among these the longer first.
func (r rule) specificity() int {
	if strings.HasPrefix(r.host, anyHost) {
		return len(r.host)
	}
	return 1 << 16
}

// admits returns nil if all of the requests are an object's, given what other paths of
// Ingresses there are. An error says which are not.
func (o ordered) admits(object *httpv1alpha1.HTTPScaledObject, q requests, paths []requests) error {
	if len(object.Spec.Headers) > 0 {
		return errors.New("the trigger has headers, and an Ingress does not look at them: leave headers out")
	}
	for _, r := range o {
		if !r.overlaps(q) || slices.ContainsFunc(paths, func(other requests) bool { return other != q && r.takenBy(other, q) }) {
			continue
		}
		switch {
		case r.object.Name != object.Name:
			return fmt.Errorf("HTTPScaledObject %s takes those of host %s below %s/: give them a path of their own in the Ingress", r.object.Name, r.host, r.prefix)
		case r.covers(q):
			return nil
		}
	}
	return errors.New("not all of them have a host of the trigger's hosts and are below one of its pathPrefixes: make the path as narrow as the trigger, or the trigger as wide as the path")
}

// covers tells whether one rule of an object's has all of the requests.
func (o ordered) covers(object *httpv1alpha1.HTTPScaledObject, q requests) bool {
	return len(object.Spec.Headers) == 0 && slices.ContainsFunc(o, func(r orderedRule) bool { return r.object.Name == object.Name && r.covers(q) })
}

// overlaps tells whether an object has any of the requests; of those of a path that is not
// defined, any of its host.
func (o ordered) overlaps(object *httpv1alpha1.HTTPScaledObject, q requests, defined bool) bool {
	return slices.ContainsFunc(o, func(r orderedRule) bool {
		return r.object.Name == object.Name && r.overlapsHost(q.host) && (!defined || r.overlaps(q))
	})
}
