package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// named returns the routes that the configuration of a call names or selects.
// missing says which of them do not exist, which stays so until a person changes
// something; err is a failed request.
func (r *Router) named(ctx context.Context, p plan) (targets []target, missing, err error) {
	if p.configError != nil {
		return nil, nil, nil
	}
	var absent, failures []error
	add := func(route *unstructured.Unstructured, headers bool, rules []string) {
		ref := refOf(route)
		if !slices.ContainsFunc(targets, func(t target) bool { return t.ref == ref }) {
			targets = append(targets, target{ref, headers, route, r.rollout(ctx, p, rules)})
		}
	}
	several := len(p.config.Routes)+len(p.config.Selectors) > 1
	for _, named := range p.config.Routes {
		ref := routeRef{named.Kind, k8stypes.NamespacedName{Namespace: p.config.Namespace, Name: named.Name}}
		ctx, cancel := part(ctx, several)
		route, err := r.get(ctx, p.notes, ref, p.atRest())
		cancel()
		switch {
		case isMissing(err):
			absent = append(absent, missingError(ref, err))
		case err != nil:
			failures = append(failures, requestError("get", ref.String(), named.Kind, r.timeout, err))
		default:
			add(route, named.UseHeaderRoutes, named.Rules)
		}
	}
	for _, s := range p.config.Selectors {
		what := fmt.Sprintf("%ss of namespace %s with labels %q", s.Kind, p.config.Namespace, s.Selector)
		ctx, cancel := part(ctx, several)
		routes, err := r.list(ctx, p.notes, s.Kind, p.config.Namespace, s.Selector)
		cancel()
		switch {
		case isMissing(err):
			absent = append(absent, err)
		case err != nil:
			failures = append(failures, requestError("list", what, s.Kind, r.timeout, err))
		case len(routes) == 0:
			absent = append(absent, fmt.Errorf("there are no %s: label the routes, or correct the selector in the Rollout's configuration", what))
		}
		for _, route := range routes {
			add(route, false, s.Rules)
		}
	}
	return targets, errors.Join(absent...), errors.Join(failures...)
}

// part bounds one of several requests of a call to half of the time that is left, so that
// a request that hangs does not keep other routes from being read and written.
func part(ctx context.Context, several bool) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !several || !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// isMissing tells whether an error says that a route or its kind is not there.
func isMissing(err error) bool {
	var notServed *kube.NotServedError
	return apierrors.IsNotFound(err) || errors.As(err, &notServed)
}

func refOf(route *unstructured.Unstructured) routeRef {
	return routeRef{Kind(route.GetKind()), k8stypes.NamespacedName{Namespace: route.GetNamespace(), Name: route.GetName()}}
}

// searches remembers for which configuration of a Rollout the routes of all kinds have
// been searched for what an earlier configuration has left on them.
type searches struct {
	mu   sync.Mutex
	done map[k8stypes.NamespacedName]searchedFor
}

type searchedFor struct {
	uid           k8stypes.UID
	configuration string
}

func searchFor(ro *v1alpha1.Rollout, plugin string) searchedFor {
	this := searchedFor{uid: ro.UID}
	if Uses(ro, plugin) {
		this.configuration = string(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[plugin])
	}
	return this
}

// due tells whether the routes have not been searched for this configuration yet.
func (s *searches) due(name k8stypes.NamespacedName, this searchedFor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[name] != this
}

// note records that the routes have been searched for this configuration, and that nothing
// is left on them.
func (s *searches) note(name k8stypes.NamespacedName, this searchedFor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = map[k8stypes.NamespacedName]searchedFor{}
	}
	s.done[name] = this
}

// found is what carrying has found.
type found struct {
	targets []target
	// known is false if no watch says which routes carry something of the Rollout: for a
	// kind that the Rollout names, or for any kind if its configuration cannot be read.
	known bool
	// everywhere is true if the routes of all kinds have been searched.
	everywhere bool
}

// carrying finds the routes that carry something of a Rollout, whether it names them or
// not. The error says which kinds could not be searched; the routes of the others are
// returned with it.
//
// Kinds that the Rollout does not name are searched only until setWeight has left no route
// behind, once for each configuration of the Rollout. It does not wait for the first list of
// such a kind, unless the configuration cannot be read and may name any kind.
func (r *Router) carrying(ctx context.Context, p plan) (found, error) {
	everywhere := p.configError != nil || r.searched.due(nameOf(p.ro), searchFor(p.ro, r.options.PluginName))
	if everywhere {
		p.notes.doNotRemember() // later calls look at fewer kinds
	}
	f := found{known: p.configError == nil || r.options.WatchNamespace == "", everywhere: everywhere}
	deadline := time.Now().Add(syncTimeout) // for the first lists of all kinds together
	var failures []error
	for _, kind := range Kinds {
		names := p.config.has(kind)
		if !names && !everywhere {
			continue
		}
		wait := time.Duration(0) // the look for deleted Rollouts, or the next call, makes up for it
		if names || p.configError != nil {
			wait = max(0, time.Until(deadline))
		}
		routes, ok, err := r.indexed(ctx, p.notes, kind, nameOf(p.ro), wait)
		if isMissing(err) {
			continue
		}
		if err != nil || !ok {
			f.known = f.known && !names && p.configError == nil
			f.everywhere = false
		}
		if err != nil && (names || p.configError != nil) {
			failures = append(failures, requestError("list", string(kind)+"s", kind, r.timeout, err))
		}
		for _, route := range routes {
			f.targets = append(f.targets, target{ref: refOf(route), route: route, rollout: r.rollout(ctx, p, nil)})
		}
	}
	return f, errors.Join(failures...)
}

// has tells whether a configuration names or selects routes of a kind.
func (c Config) has(kind Kind) bool {
	return slices.ContainsFunc(c.Routes, func(r RouteConfig) bool { return r.Kind == kind }) ||
		slices.ContainsFunc(c.Selectors, func(s SelectorConfig) bool { return s.Kind == kind })
}
