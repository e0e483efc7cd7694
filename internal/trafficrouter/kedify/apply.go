package kedify

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// apply makes one HTTPScaledObject carry the plan's split. It fails with a missingError
// if the object does not exist, and with a foreignError if it carries another Rollout's
// split.
func (r *Router) apply(ctx context.Context, p plan, name string) error {
	started := time.Now()
	namespace := p.ro.Namespace
	read := r.objects.Get
	for attempt := 1; ; attempt++ {
		object, err := read(ctx, namespace, name)
		if apierrors.IsNotFound(err) && !r.knownMissing(p, name) {
			// The watch may not show an object yet that has just been created.
			object, err = r.objects.Read(ctx, namespace, name)
		}
		if apierrors.IsNotFound(err) {
			return r.missing(p, name, err)
		}
		if err != nil {
			return requestError("get", namespace, name, r.timeout, err)
		}
		r.missed.Delete(namespace + "/" + name)
		now := presentIn(object.Annotations)
		if err := r.mayChange(ctx, namespace, p.ro.Name, name, now); err != nil {
			return err
		}
		change := decide(now, p.ro.Name, p.split)
		if change == nil {
			return nil
		}
		_, err = r.objects.Annotate(ctx, object, change)
		switch {
		case err == nil:
			r.logChange(p, name, now, time.Since(started))
			return nil
		case apierrors.IsNotFound(err):
			return r.missing(p, name, err)
		case apierrors.IsConflict(err) && attempt < attempts:
			// The object has changed since it was read: read it again, from the API
			// server.
			read = r.objects.Read
		default:
			return requestError("patch", namespace, name, r.timeout, err)
		}
	}
}

func (r *Router) logChange(p plan, name string, from present, took time.Duration) {
	fields := []any{
		"rollout", nameOf(p.ro).String(), "httpScaledObject", p.ro.Namespace + "/" + name,
		"from", from.String(), "to", weightedbackends.Describe(p.split), "took", took.Round(time.Microsecond).String(),
	}
	if owner := from.ownerOtherThan(p.ro.Name); owner != "" {
		fields = append(fields, "takenOverFrom", p.ro.Namespace+"/"+owner)
	}
	r.logger.Info("split changed", fields...)
}

// knownMissing tells whether the Rollout is at rest and the API server has already said
// that an HTTPScaledObject, which the watch does not show, does not exist.
func (r *Router) knownMissing(p plan, name string) bool {
	_, known := r.missed.Load(p.ro.Namespace + "/" + name)
	return known && p.atRest
}

// missing records that an HTTPScaledObject does not exist. At rest, where that is no
// error, it is logged once.
func (r *Router) missing(p plan, name string, err error) error {
	missing := &missingError{namespace: p.ro.Namespace, name: name, cause: err}
	if _, noted := r.missed.LoadOrStore(p.ro.Namespace+"/"+name, true); !noted && p.atRest {
		r.logger.Warn("weight 0 for an HTTPScaledObject that is not there", "rollout", nameOf(p.ro).String(), "reason", missing)
	}
	return missing
}

// leaveUnnamed removes the Rollout's split from the HTTPScaledObjects that the Rollout
// does not name (any more); it finds them in the watch. If the Rollout's configuration
// cannot be read, any of them may be named: all get the split at rest, and are returned
// if there is one.
func (r *Router) leaveUnnamed(ctx context.Context, p plan) (carrying []string, err error) {
	objects, ok, err := r.objects.WithAnnotation(ctx, p.ro.Namespace, p.ro.Name, syncTimeout)
	switch {
	case err != nil:
		return nil, err
	case !ok && p.configError != nil:
		return nil, fmt.Errorf("the HTTPScaledObjects to take the split off are not known: the controller may not list and watch them (or the watch has not begun), and %w", p.configError)
	case !ok:
		r.logger.Debug("no watch (yet): splits on HTTPScaledObjects that the Rollout no longer names stay for now", "rollout", nameOf(p.ro).String())
	}
	var failures []error
	for _, object := range objects {
		switch {
		case p.isFor(object.Name):
		case p.configError != nil:
			if err := r.apply(ctx, p, object.Name); err != nil && !isLasting(p, err) {
				failures = append(failures, err)
			} else if err == nil && p.split != nil {
				carrying = append(carrying, object.Name)
			}
		default:
			failures = append(failures, r.releaseUnnamed(ctx, p, object.Name))
		}
	}
	return carrying, errors.Join(failures...)
}

// releaseUnnamed removes the Rollout's split from an HTTPScaledObject that the Rollout
// does not name.
func (r *Router) releaseUnnamed(ctx context.Context, p plan, name string) error {
	if p.pingPong() {
		release, err := r.readForRelease(ctx, nameOf(p.ro), name)
		if err != nil || release == nil {
			return err
		}
		return r.release(ctx, *release)
	}
	p.atRest, p.split = true, nil
	if err := r.apply(ctx, p, name); err != nil && !isLasting(p, err) {
		return err
	}
	return nil
}
