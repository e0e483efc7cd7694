package resourcestep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// listLimit bounds how many objects of earlier attempts are looked at.
const listLimit = 500

// step creates an object. The API server creates only one object of a name, so a repeated Start
// finds the object that the earlier one has created.
type step struct {
	kind                     *kind
	manifest                 manifest
	needsStable              bool
	success, failure         *cel.Expression
	successText, failureText string
	outputs                  []output
	message                  *cel.Text
}

type output struct {
	path, name string
	value      *cel.Expression
}

// Repeatable is true: the object has a name.
func (s *step) Repeatable() bool { return true }

// Finds is false: the name does.
func (s *step) Finds() bool { return false }

// Left names the object.
func (s *step) Left(work steps.Work) string {
	return stepobject.Store{Kind: s.manifest.kind.Kind}.Named(work.Rollout.Namespace, stepobject.NameOf(work))
}

// store returns what reads and writes the objects of the step's kind.
func (s *step) store(ctx context.Context) (stepobject.Store, error) {
	store := stepobject.Store{Objects: s.kind.objects, Kind: s.manifest.kind.Kind}
	served, err := s.kind.find(ctx, s.manifest.kind)
	if err != nil {
		return store, err
	}
	store.Resource = served.GroupVersionResource
	store.Grants = fmt.Sprintf("the controller's ServiceAccount needs create, get, list and delete of %s: a Role is in docs/how-to/step-admin.md", served.GroupResource())
	return store, nil
}

// Start creates the object, unless an earlier Start has. What it is made from may have changed
// or gone since then, so the object comes first.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	store, err := s.store(ctx)
	if err != nil {
		return steps.Progress{}, err
	}
	var list metav1.PartialObjectMetadataList
	selection := kube.Selection{Labels: stepobject.OfStep(work), Limit: listLimit, Metadata: true}
	namespace, name := work.Rollout.Namespace, stepobject.NameOf(work)
	if err := store.Objects.List(ctx, store.Resource, namespace, selection, &list); err != nil {
		return steps.Progress{}, store.Failure(fmt.Sprintf("%s of step %s of Rollout %s/%s cannot be listed", store.Resource.Resource, work.ID, namespace, work.Rollout.Name), s.kind.unknown(s.manifest.kind, err))
	}
	for i := range list.Items {
		if object := &list.Items[i]; object.Name == name && stepobject.IsOf(object, work) {
			return s.Poll(ctx, work)
		}
	}
	meta := stepobject.Metadata(work, name)
	object, err := s.wanted(ctx, work, meta)
	if err != nil {
		return steps.Progress{}, err
	}
	if err := s.deleteFormer(ctx, store, work, list.Items); err != nil {
		return steps.Progress{}, err
	}
	switch made, err := store.Create(ctx, store.Objects.CreateStrict, meta, object); {
	case err != nil:
		return steps.Progress{}, err
	case made:
		return store.Created(namespace, name), nil
	}
	return s.Poll(ctx, work)
}

// wanted returns the object of an attempt at the step.
func (s *step) wanted(ctx context.Context, work steps.Work, meta metav1.ObjectMeta) (map[string]any, error) {
	vars, err := s.vars(ctx, work)
	if err != nil {
		return nil, err
	}
	object, err := s.manifest.render(ctx, cel.NewBudget(), vars, meta)
	if err != nil {
		return nil, &steps.Error{Final: true, Cause: err}
	}
	return object, nil
}

// deleteFormer deletes the objects of this Rollout's other attempts at the step, whatever their
// state: nothing else deletes those that have ended, and those that still run are of a canary that
// another revision has replaced, of which the controller does not tell the plugin.
func (s *step) deleteFormer(ctx context.Context, store stepobject.Store, work steps.Work, all []metav1.PartialObjectMetadata) error {
	for i := range all {
		former := &all[i]
		if former.Labels[stepobject.KeyLabel] == work.Key || !stepobject.IsOwnedBy(former, work.Rollout) || former.DeletionTimestamp != nil {
			continue
		}
		s.kind.logger.Info("deleting the object of an earlier attempt at the step", "rollout", work.Rollout.Namespace+"/"+work.Rollout.Name, "kind", store.Kind, "object", former.Name)
		if err := store.Delete(ctx, former); err != nil {
			return fmt.Errorf("of an earlier attempt at the step: %w", err)
		}
	}
	return nil
}

// Poll reads the object.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	namespace, name := work.Rollout.Namespace, stepobject.NameOf(work)
	store, err := s.store(ctx)
	if isNotServed(err) && s.isGone(ctx, store, namespace, name) {
		return store.Gone(namespace, name), nil
	}
	if err != nil {
		return steps.Progress{}, err
	}
	o, found, err := s.read(ctx, store, work, name)
	switch {
	case err != nil:
		return steps.Progress{}, err
	case !found:
		return store.Gone(namespace, name), nil
	}
	defer o.release()
	if foreign := store.Foreign(&o.meta, work); foreign != nil {
		return *foreign, nil
	}
	return s.progress(ctx, store, o)
}

// Cancel deletes the object, and succeeds when it is gone.
func (s *step) Cancel(ctx context.Context, work steps.Work) error {
	store, err := s.store(ctx)
	if isNotServed(err) {
		store.Resource, err = s.kind.objects.ServedInAny(ctx, s.manifest.kind.GroupKind())
	}
	if isNotServed(err) {
		return nil // its objects have gone with its last version
	}
	if err != nil {
		return err
	}
	return s.kind.unknown(s.manifest.kind, store.Remove(ctx, work, stepobject.NameOf(work)))
}

// isGone tells whether an object certainly does not exist, where its kind is not served any more in
// the version in which it was made.
func (s *step) isGone(ctx context.Context, store stepobject.Store, namespace, name string) bool {
	var err error
	if store.Resource, err = s.kind.objects.ServedInAny(ctx, s.manifest.kind.GroupKind()); err != nil {
		return false
	}
	found, err := store.Get(ctx, namespace, name, new(metav1.PartialObjectMetadata))
	return err == nil && !found
}

func isNotServed(err error) bool { return errors.As(err, new(*kube.NotServedError)) }

// Undo deletes the object of work that has succeeded.
func (s *step) Undo(ctx context.Context, work steps.Work) error { return s.Cancel(ctx, work) }

// vars returns what texts can refer to.
func (s *step) vars(ctx context.Context, work steps.Work) (cel.Vars, error) {
	if !s.needsStable {
		return steps.Scope(work, nil), nil
	}
	old, err := steps.StableTemplate(ctx, s.kind.objects, work.Rollout)
	return steps.Scope(work, old), err
}

// read reads an object and what conditions over it see.
func (s *step) read(ctx context.Context, store stepobject.Store, work steps.Work, name string) (*observation, bool, error) {
	vars, err := s.vars(ctx, work)
	if err != nil {
		return nil, false, err
	}
	select {
	case s.kind.decoders <- struct{}{}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	o := &observation{vars: vars, budget: cel.NewBudget(), release: func() { <-s.kind.decoders }}
	var text json.RawMessage
	found, err := store.Get(ctx, work.Rollout.Namespace, name, &text)
	if err == nil && found {
		err = o.take(text)
	}
	if err != nil || !found {
		o.release()
		return nil, false, s.kind.unknown(s.manifest.kind, err)
	}
	return o, true, nil
}
