package gatewayapi

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// get reads a route. The watch may not show a route yet that was just created: above
// rest, where a missing route is an error, the API server is asked too.
func (r *Router) get(ctx context.Context, n *notes, ref routeRef, atRest bool) (*unstructured.Unstructured, error) {
	route, err := r.routes.Get(ctx, string(ref.kind), ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) && !atRest {
		route, err = r.routes.Read(ctx, string(ref.kind), ref.Namespace, ref.Name)
	}
	var found kube.State
	switch {
	case err == nil:
		found = kube.StateOf(route)
	case !apierrors.IsNotFound(err):
		n.doNotRemember()
		return nil, err
	}
	n.read(func() bool {
		now, ok := r.routes.State(string(ref.kind), ref.Namespace, ref.Name)
		return ok && now == found
	})
	return route, err
}

// list reads the routes of a namespace with labels.
func (r *Router) list(ctx context.Context, n *notes, kind Kind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error) {
	routes, err := r.routes.List(ctx, string(kind), namespace, selector)
	if err != nil {
		n.doNotRemember()
		return nil, err
	}
	found := statesOf(routes)
	n.read(func() bool {
		now, ok := r.routes.ListStates(string(kind), namespace, selector)
		return ok && slices.Equal(now, found)
	})
	return routes, nil
}

// indexed reads the routes of a kind that carry something of a Rollout. It waits for the
// watch at most as long as wait; ok is false without a watch.
func (r *Router) indexed(ctx context.Context, n *notes, kind Kind, rollout k8stypes.NamespacedName, wait time.Duration) (routes []*unstructured.Unstructured, ok bool, err error) {
	routes, ok, err = r.routes.Indexed(ctx, string(kind), rollout.String(), wait)
	if err != nil || !ok {
		n.doNotRemember()
		return nil, ok, err
	}
	found := statesOf(routes)
	n.read(func() bool {
		now, ok := r.routes.IndexedStates(string(kind), rollout.String())
		return ok && slices.Equal(now, found)
	})
	return routes, true, nil
}

func statesOf(routes []*unstructured.Unstructured) []kube.State {
	states := make([]kube.State, len(routes))
	for i, route := range routes {
		states[i] = kube.StateOf(route)
	}
	return states
}
