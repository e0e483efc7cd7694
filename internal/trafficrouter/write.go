package trafficrouter

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// decide makes the decision on one object. If the object, or what is needed of it, belongs
// to a Rollout that is gone or does not use it any more, the decision also releases that.
func (r *Router[T, S]) decide(ctx context.Context, p *Plan, t Target[T, S]) (Decision[T, S], error) {
	for released := false; ; released = true {
		d, err := r.backend.Decide(ctx, p, t)
		d.Changed = d.Changed || released
		var foreign *ForeignError
		if !errors.As(err, &foreign) {
			return d, err
		}
		var o ownership
		if o, foreign.Unread = r.ownership(ctx, foreign.Owner, t.Ref, t.Object.GetLabels()); o.owns {
			if p.AtRest() && !rolloutspec.UsesPingPong(p.Rollout) {
				return Decision[T, S]{Object: t.Object}, nil // there is nothing of the Rollout to take off
			}
			return d, err
		}
		free, releaseErr := r.backend.Release(ctx, t.Object, foreign.Owner, o.rollout)
		if releaseErr != nil || !free.Changed {
			return d, err
		}
		r.Logger.Info("what a Rollout that does not use the object any more has left is taken off", "rollout", foreign.Owner.Rollout.String(), r.LogField, r.logged(t.Ref))
		t.Object = free.Object
	}
}

// release makes the decision on an object that the Rollout of a plan does not name.
func (r *Router[T, S]) release(ctx context.Context, p *Plan, t Target[T, S]) (Decision[T, S], error) {
	return r.backend.Release(ctx, t.Object, Owner{p.Name(), r.PluginName}, p.Rollout)
}

// judge is decide or release.
type judge[T Object, S any] func(context.Context, *Plan, Target[T, S]) (Decision[T, S], error)

// decision is an object with the decision on it.
type decision[T Object, S any] struct {
	Target[T, S]
	is Decision[T, S]
}

// decideAll decides on all objects before the first is written.
func (r *Router[T, S]) decideAll(ctx context.Context, c *call[S], targets []Target[T, S], judge judge[T, S]) (all []decision[T, S], err error) {
	var failures []error
	for _, t := range targets {
		ctx, cancel := part(ctx, len(targets) > 1)
		d, err := judge(ctx, &c.Plan, t)
		cancel()
		if foreign := (*ForeignError)(nil); c.name == setWeight && c.AtRest() && errors.As(err, &foreign) {
			c.Warn(ReasonError, err.Error(), err.Error()) // with pingPong: there is nothing to take traffic off
			continue
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		all = append(all, decision[T, S]{t, d})
	}
	return all, errors.Join(failures...)
}

// writeAll writes the decisions. An object that was written, or a decision that had to be
// made again, replaces the one in all. The error names the objects that were not written.
func (r *Router[T, S]) writeAll(ctx context.Context, c *call[S], all []decision[T, S], judge judge[T, S]) error {
	var failures []error
	for i := range all {
		ctx, cancel := part(ctx, len(all) > 1)
		failures = append(failures, r.write(ctx, c, &all[i], judge))
		cancel()
	}
	return errors.Join(failures...)
}

// write writes the decision on an object. On a conflict the object is read and decided on
// again. An object that is already as decided costs no request.
func (r *Router[T, S]) write(ctx context.Context, c *call[S], d *decision[T, S], judge judge[T, S]) error {
	started := time.Now()
	q := Query{Kind: d.Kind, Namespace: d.Namespace, Name: d.Name}
	for attempt := 1; ; attempt++ {
		for _, warning := range d.is.Warnings {
			c.Warn(r.Reasons.Decision, warning, warning)
		}
		if !d.is.Changed {
			return nil
		}
		c.again = true
		written, err := r.store.Write(ctx, d.Object, d.is.Object)
		switch {
		case err == nil:
			d.Object = written
			r.Logger.Info(r.noun()+" changed", append(changes(&c.Plan, d.is), "rollout", c.Name().String(), r.LogField, r.logged(d.Ref), "took", time.Since(started).Round(time.Microsecond).String())...)
			return nil
		case IsMissing(err) && c.weight == 0:
			return nil // there is nothing to take traffic off
		case apierrors.IsConflict(err) && attempt < attempts:
			fresh, err := r.store.Read(ctx, d.Ref)
			if err != nil {
				return r.failed("get", q, err)
			}
			fresh.SetManagedFields(nil)
			again, err := judge(ctx, &c.Plan, Target[T, S]{d.Ref, fresh, d.Settings})
			if err != nil {
				return err
			}
			d.Object, d.is = fresh, again
		default:
			return r.failed("patch", q, err)
		}
	}
}

// noun is what the router writes, for the log.
func (r *Router[T, S]) noun() string { return strings.TrimPrefix(r.Request.Kept, "the ") }

// logged names an object in the log, under LogField.
func (r *Router[T, S]) logged(ref Ref) string {
	if len(r.Kinds) == 1 {
		return ref.NamespacedName.String()
	}
	return ref.String()
}

// changes are the fields of the log that say what a decision has changed.
func changes[T Object, S any](p *Plan, d Decision[T, S]) []any {
	switch {
	case d.To != "":
		return []any{"from", d.From, "to", d.To}
	case p.Weights != nil:
		return []any{"stable", p.Weights.Stable, "canary", p.Weights.Canary}
	}
	return nil
}
