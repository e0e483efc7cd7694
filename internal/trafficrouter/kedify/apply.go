package kedify

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// apply makes one HTTPScaledObject carry the plan's split. At rest a missing
// object is only logged: there is nothing to take off, and a first deployment or
// an abort must not hang on it.
func (r *Router) apply(ctx context.Context, p plan, name string) error {
	started := time.Now()
	namespace := p.ro.Namespace
	read := r.objects.Get
	for attempt := 1; ; attempt++ {
		object, err := read(ctx, namespace, name)
		if apierrors.IsNotFound(err) && !r.knownMissing(p, name) {
			// A watch may be behind an object that has just been made.
			object, err = r.objects.Read(ctx, namespace, name)
		}
		if apierrors.IsNotFound(err) {
			return r.missing(p, name, err)
		}
		if err != nil {
			return requestError("get", namespace, name, r.timeout, err)
		}
		r.missed.Delete(namespace + "/" + name)
		change, err := r.change(ctx, p, object)
		if err != nil || change == nil {
			return err
		}
		_, err = r.objects.Annotate(ctx, object, change)
		switch {
		case err == nil:
			r.logChange(p, name, presentIn(object.Annotations), time.Since(started))
			return nil
		case apierrors.IsNotFound(err):
			return r.missing(p, name, err)
		case apierrors.IsConflict(err) && attempt < attempts:
			// Changed since it was read: look again, past the watch.
			read = r.objects.Read
		default:
			return requestError("patch", namespace, name, r.timeout, err)
		}
	}
}

// change returns what to write to an object so that it carries the plan's split,
// or nothing. The split of another Rollout is left alone at rest, and is an
// error otherwise.
func (r *Router) change(ctx context.Context, p plan, object *metav1.PartialObjectMetadata) (map[string]*string, error) {
	now, namespace := presentIn(object.Annotations), p.ro.Namespace
	if owner := now.foreignTo(p.ro.Name); owner != "" {
		owns, err := r.owns(ctx, namespace, owner, object.Name)
		switch {
		// If the other Rollout cannot be read, assume that the split is its own.
		case (err != nil || owns) && p.atRest:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("HTTPScaledObject %s/%s carries the split of Rollout %s/%s, and whether that Rollout still uses it could not be read: %w", namespace, object.Name, namespace, owner, err)
		case owns:
			return nil, fmt.Errorf("HTTPScaledObject %s/%s carries the split of Rollout %s/%s: one HTTPScaledObject takes the split of one Rollout; let %s finish, or give Rollout %s an HTTPScaledObject of its own",
				namespace, object.Name, namespace, owner, owner, nameOf(p.ro))
		}
	}
	return decide(now, p.ro.Name, p.split), nil
}

func (r *Router) logChange(p plan, name string, from present, took time.Duration) {
	fields := []any{
		"rollout", nameOf(p.ro).String(), "httpScaledObject", p.ro.Namespace + "/" + name,
		"from", from.String(), "to", weightedbackends.Describe(p.split), "took", took.Round(time.Microsecond).String(),
	}
	if owner := from.foreignTo(p.ro.Name); owner != "" {
		fields = append(fields, "takenOverFrom", p.ro.Namespace+"/"+owner)
	}
	r.logger.Info("split changed", fields...)
}

// knownMissing tells whether a Rollout at rest has been told already that its
// HTTPScaledObject is not there: once is enough to ask the API server.
func (r *Router) knownMissing(p plan, name string) bool {
	_, known := r.missed.Load(p.ro.Namespace + "/" + name)
	return known && p.atRest
}

func (r *Router) missing(p plan, name string, err error) error {
	err = missingError(p.ro.Namespace, name, err)
	if !p.atRest {
		return err
	}
	if _, logged := r.missed.LoadOrStore(p.ro.Namespace+"/"+name, true); !logged {
		r.logger.Warn("nothing to take the split off", "rollout", nameOf(p.ro).String(), "reason", err)
	}
	return nil
}

// leaveUnnamed takes the Rollout's split off the HTTPScaledObjects that it does
// not name (any more). They are found in the watch; without one they stay as
// they are.
func (r *Router) leaveUnnamed(ctx context.Context, p plan) error {
	objects, ok, err := r.objects.WithAnnotation(ctx, p.ro.Namespace, p.ro.Name, syncTimeout)
	switch {
	case err != nil:
		return err
	case !ok && p.configError != nil:
		return fmt.Errorf("the HTTPScaledObjects to take the split off are not known: the controller may not list and watch them (or the watch has not begun), and %w", p.configError)
	case !ok:
		r.logger.Debug("no watch (yet): splits on HTTPScaledObjects that the Rollout no longer names stay for now", "rollout", nameOf(p.ro).String())
	}
	// Without a configuration all that the Rollout owns may be named: with
	// pingPong these objects have to name the stable Service.
	leave := p
	leave.atRest = true
	if p.configError == nil {
		leave.split = nil
	}
	var failures []error
	for _, object := range objects {
		switch {
		case p.isFor(object.Name):
		case p.pingPong() && leave.split == nil:
			failures = append(failures, r.release(ctx, nameOf(p.ro), object.Name))
		default:
			failures = append(failures, r.apply(ctx, leave, object.Name))
		}
	}
	return errors.Join(failures...)
}
