package gatewayapi

import (
	"context"
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/orphans"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

// reasonReleased is the reason of the Event on a route that has gone back to rest because
// its Rollout is gone.
const reasonReleased = "RouteReleased"

// Owns tells whether a Rollout still owns what it has on a route: it is not being deleted,
// uses the plugin of that name, and names or selects the route or has a configuration that
// cannot be read. (The controller does nothing any more for a Rollout that waits for a
// finalizer.)
func Owns(ro *v1alpha1.Rollout, plugin string, route *unstructured.Unstructured) bool {
	if ro.DeletionTimestamp != nil || !Uses(ro, plugin) {
		return false
	}
	config, err := ConfigOf(ro, plugin)
	return err != nil || config.names(route)
}

// names tells whether a configuration names or selects a route.
func (c Config) names(route *unstructured.Unstructured) bool {
	ref := refOf(route)
	return ref.Namespace == c.Namespace &&
		(slices.ContainsFunc(c.Routes, func(named RouteConfig) bool { return named.Kind == ref.kind && named.Name == ref.Name }) ||
			slices.ContainsFunc(c.Selectors, func(s SelectorConfig) bool {
				return s.Kind == ref.kind && s.Selector.Matches(labels.Set(stringsOf(route, "labels")))
			}))
}

// ownership says whether a Rollout still owns what it has on a route.
type ownership struct {
	// owns is true if the Rollout owns it.
	owns bool
	// underWay is true for a Rollout that uses the plugin and has a canary under way.
	underWay bool
	// stable is the Service that is stable now, for an existing Rollout with pingPong.
	stable string
}

// ownership asks the API server whether a Rollout owns what it has on a route. If the
// Rollout cannot be read, it assumes so, and the error says why. It also assumes so if the
// Rollout exists and its entry was written by the plugin under another registered name:
// that registration decides.
func (r *Router) ownership(ctx context.Context, rollout k8stypes.NamespacedName, route *unstructured.Unstructured) (o ownership, err error) {
	ro, err := rolloutsplugin.ReadRollout(ctx, r.whole, rollout)
	switch {
	case err != nil:
		return ownership{owns: true}, err
	case ro == nil:
		return ownership{}, nil
	}
	if of := RolloutOf(ro, nil); of.PingPong {
		o.stable = of.Stable
	}
	o.owns = pluginOf(route, rollout) != r.options.PluginName || Owns(ro, r.options.PluginName, route)
	o.underWay = Uses(ro, r.options.PluginName) && rolloutspec.UnderWay(ro)
	return o, nil
}

// markOf says that a route carries something of a Rollout. The labels of the route are the
// mark's state, because the Rollout may select the route by them.
func markOf(ref routeRef, routeLabels map[string]string, rollout k8stypes.NamespacedName) orphans.Mark[routeRef] {
	return orphans.Mark[routeRef]{Object: ref, Rollout: rollout, State: labels.Set(routeLabels).String()}
}

// marks returns the marks on routes of the kinds that are watched. It has all kinds watched
// as soon as the cluster says which kinds it serves: a Rollout may have been deleted before
// this process began, and no other Rollout may name routes of the kind.
func (r *Router) marks(ctx context.Context) []orphans.Mark[routeRef] {
	r.watchAll(ctx)
	var marks []orphans.Mark[routeRef]
	for _, kind := range Kinds {
		routes, _ := r.routes.Keyed(string(kind))
		for _, route := range routes {
			ref := routeRef{kind, k8stypes.NamespacedName{Namespace: route.Namespace, Name: route.Name}}
			// More Rollouts than rules cannot share a route. So an annotation with thousands
			// of names costs no more; the next look goes on with the rest.
			for _, key := range route.Keys[:min(len(route.Keys), maxRules)] {
				marks = append(marks, markOf(ref, route.Labels, rolloutNamed(key)))
			}
		}
	}
	return marks
}

// watchAll starts to watch the routes of all kinds that the cluster serves. A kind that the
// cluster does not serve now is watched from its first use on.
func (r *Router) watchAll(ctx context.Context) {
	if r.watchesAll.Load() {
		return
	}
	known := true
	for _, kind := range Kinds {
		err := r.routes.Watch(ctx, string(kind))
		known = known && (err == nil || isMissing(err))
	}
	r.watchesAll.Store(known)
}

// takeOff removes what a Rollout has on a route, unless the Rollout owns it or has a canary
// under way. Other Rollouts' parts of the route stay as they are.
func (r *Router) takeOff(ctx context.Context, ref routeRef, rollout k8stypes.NamespacedName) (owns bool, err error) {
	route, err := r.routes.Read(ctx, string(ref.kind), ref.Namespace, ref.Name)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, requestError("get", ref.String(), ref.kind, r.timeout, err)
	}
	route.SetManagedFields(nil)
	if !slices.Contains(RolloutsOn(route), rollout) {
		return false, nil
	}
	o, err := r.ownership(ctx, rollout, route)
	if err != nil || o.owns || o.underWay {
		return o.owns, err
	}
	released, err := Release(route, rollout, o.stable)
	if err != nil {
		return false, err
	}
	written, err := r.routes.Write(ctx, route, released.Route)
	if err != nil {
		return false, requestError("patch", ref.String(), ref.kind, r.timeout, err)
	}
	r.reports.wrote(ref, written)
	r.logger.Info("what a Rollout that does not use the route any more has left is taken off", "rollout", rollout.String(), "route", ref.String())
	r.events.Warn(&corev1.ObjectReference{
		APIVersion: written.GetAPIVersion(), Kind: written.GetKind(),
		Namespace: ref.Namespace, Name: ref.Name, UID: written.GetUID(), ResourceVersion: written.GetResourceVersion(),
	}, reasonReleased, rollout.String(), fmt.Sprintf("%s has its weights and rules from before the canary of Rollout %s again: that Rollout does not exist, or does not use this route any more", ref, rollout))
	return false, nil
}
