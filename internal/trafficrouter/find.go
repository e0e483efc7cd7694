package trafficrouter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// found are the objects that a call is about.
type found[T Object, S any] struct {
	targets []Target[T, S]
	// missing says which objects that the Rollout means are not there, which stays so until a
	// person changes something; unread is a failed request.
	missing, unread error
}

// find reads the objects that a Rollout means. If its configuration cannot be read, it may
// mean any object: these are all that have something of the Rollout.
func (r *Router[T, S]) find(ctx context.Context, c *call[S]) found[T, S] {
	if c.Unconfigured {
		return r.findUnconfigured(ctx, c)
	}
	var f found[T, S]
	var missing, unread []error
	for _, selected := range c.config.Objects {
		ctx, cancel := part(ctx, len(c.config.Objects) > 1)
		objects, err := r.read(ctx, c, selected.Query)
		cancel()
		switch {
		case err == nil && len(objects) == 0, IsMissing(err):
			missing = append(missing, r.backend.Missing(selected.Query, err))
		case err != nil:
			unread = append(unread, r.failed("get", selected.Query, err))
		}
		for _, object := range objects {
			f.targets = addTarget(f.targets, Target[T, S]{refOf(selected.Kind, object), object, selected.Settings})
		}
	}
	f.missing, f.unread = errors.Join(missing...), errors.Join(unread...)
	return f
}

// findUnconfigured is find for a Rollout whose configuration cannot be read.
func (r *Router[T, S]) findUnconfigured(ctx context.Context, c *call[S]) (f found[T, S]) {
	others, known, err := r.having(ctx, c)
	f.targets = slices.Concat(others, r.keptTargets(ctx, c, others))
	if !known && len(f.targets) == 0 && c.Rollout.Status.CurrentPodHash != c.Rollout.Status.StableRS {
		f.unread = errors.Join(err, fmt.Errorf("the %ss to take traffic off are not known: the controller may not list and watch them (or the watch has not begun), and %w", r.noun(), c.configError))
	}
	return f
}

// addTarget adds a target unless its object is there already.
func addTarget[T Object, S any](targets []Target[T, S], t Target[T, S]) []Target[T, S] {
	if slices.ContainsFunc(targets, func(other Target[T, S]) bool { return other.Ref == t.Ref }) {
		return targets
	}
	return append(targets, t)
}

// read reads objects by name or labels. The watch may not show an object yet that was just
// created: above rest, where a missing one is a problem, the API server is asked too.
func (r *Router[T, S]) read(ctx context.Context, c *call[S], q Query) ([]T, error) {
	objects, err := r.store.Find(ctx, q)
	if apierrors.IsNotFound(err) && q.Name != "" && c.Weights != nil && !c.AtRest() {
		var object T
		if object, err = r.store.Read(ctx, q.Ref()); err == nil {
			object.SetManagedFields(nil)
			objects = []T{object}
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		c.again = true // nothing is known of the objects
	}
	c.readings = append(c.readings, reading{q, r.statesOf(objects), true})
	return objects, err
}

// having returns the objects that have something of a Rollout. known is false if no watch
// says which these are, for a kind that the Rollout names, or for any kind if its
// configuration cannot be read. The objects of other kinds are returned with an error.
//
// Kinds that the Rollout does not name are left to the look for what Rollouts that are gone
// have left, unless there is none, and are not waited for.
func (r *Router[T, S]) having(ctx context.Context, c *call[S]) (targets []Target[T, S], known bool, err error) {
	known = !c.Unconfigured || r.WatchNamespace == "" || !r.OtherNamespaces
	deadline := time.Now().Add(syncTimeout) // for the first lists of all kinds together
	var failures []error
	for _, kind := range r.Kinds {
		needed := c.Unconfigured || slices.ContainsFunc(c.config.Objects, func(s Selected[S]) bool { return s.Kind == kind })
		if !needed && r.SelfHeal {
			continue
		}
		wait := time.Duration(0)
		if needed {
			wait = max(0, time.Until(deadline))
		}
		q := Query{Kind: kind, Rollout: c.Name()}
		objects, ok, err := r.store.Having(ctx, q, wait)
		c.readings = append(c.readings, reading{q, r.statesOf(objects), ok && err == nil})
		switch {
		case IsMissing(err):
			continue
		case err != nil && needed:
			failures = append(failures, r.failed("list", q, err))
		}
		known = known && (ok && err == nil || !needed)
		for _, object := range objects {
			targets = append(targets, Target[T, S]{Ref: refOf(kind, object), Object: object})
		}
	}
	return targets, known, errors.Join(failures...)
}

// keptTargets returns the objects that self-healing keeps for a Rollout, besides those that
// have been read.
func (r *Router[T, S]) keptTargets(ctx context.Context, c *call[S], read []Target[T, S]) (targets []Target[T, S]) {
	last, refs, _ := r.healer.Kept(c.Name())
	for _, ref := range refs {
		if slices.ContainsFunc(read, func(t Target[T, S]) bool { return t.Ref == ref }) {
			continue
		}
		ctx, cancel := part(ctx, true)
		objects, err := r.store.Find(ctx, Query{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
		cancel()
		if err == nil && len(objects) > 0 {
			targets = append(targets, Target[T, S]{ref, objects[0], last.settings[ref]})
		}
	}
	return targets
}

// part bounds one of several requests of a call to half of the time that is left, so that a
// request that hangs does not keep other objects from being read and written.
func part(ctx context.Context, several bool) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !several || !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// failed returns the error of a request that has failed.
func (r *Router[T, S]) failed(verb string, q Query, err error) error {
	if q.Name == "" {
		verb = "list"
	}
	request := r.Request
	request.Verb, request.Object, request.Resource, request.Timeout = verb, q.String(), r.Resource(q.Kind), r.Timeout
	return request.Failed(err)
}

// IsMissing tells whether an error says that an object or its kind is not there.
func IsMissing(err error) bool {
	var notServed *kube.NotServedError
	return apierrors.IsNotFound(err) || errors.As(err, &notServed)
}

func refOf[T Object](kind string, object T) Ref {
	ref := Ref{Kind: kind}
	ref.Namespace, ref.Name = object.GetNamespace(), object.GetName()
	return ref
}
