package stepobject

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// NotAgain says why an object that is gone is not created anew.
const NotAgain = "it is not created again, as its work may be half done: abort and retry the canary, or set retries"

// Store reads and writes the objects of one kind.
type Store struct {
	Objects  *kube.Objects
	Resource schema.GroupVersionResource
	// Kind is for people: "Job".
	Kind string
	// Grants says what has the permissions, for an error about one that is missing.
	Grants string
}

// Named returns an object for people: "Job demo/e2e".
func (s Store) Named(namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", s.Kind, namespace, name)
}

// Failure returns an error of the API server with what cannot be done, and what to do.
func (s Store) Failure(what string, err error) error {
	advice := ""
	if isNotGranted(err) {
		advice = " (" + s.Grants + ")"
	}
	return fmt.Errorf("%s: %w%s", what, err, advice)
}

// Get reads an object. found is false if there is none of that name.
func (s Store) Get(ctx context.Context, namespace, name string, into any) (found bool, err error) {
	err = s.Objects.Get(ctx, s.Resource, namespace, name, into)
	switch {
	case apierrors.IsNotFound(err) && !kube.IsPathUnknown(err):
		return false, nil
	case err != nil:
		return false, s.Failure(s.Named(namespace, name)+" cannot be read", err)
	}
	return true, nil
}

// Create makes an object of a step with one of the methods of kube.Objects. made is false if
// there is one of its name already. The error is a steps.Error.
func (s Store) Create(ctx context.Context, create func(context.Context, schema.GroupVersionResource, string, any) error, meta metav1.ObjectMeta, object any) (made bool, err error) {
	err = create(ctx, s.Resource, meta.Namespace, object)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, nil
	}
	cause := s.Failure(s.Named(meta.Namespace, meta.Name)+" cannot be created", err)
	return false, &steps.Error{Outcome: outcomeOf(err), Final: isRefused(err), Cause: cause}
}

// Created is the Progress of a step whose object was created.
func (s Store) Created(namespace, name string) steps.Progress {
	return steps.Progress{Phase: steps.Running, Message: s.Named(namespace, name) + " was created", Waiting: "start"}
}

// Foreign is the Progress of a step under whose object's name there is another object, or nil.
func (s Store) Foreign(object metav1.Object, work steps.Work) *steps.Progress {
	if IsOf(object, work) {
		return nil
	}
	why := "it has no owner with this Rollout's UID"
	if key := object.GetLabels()[KeyLabel]; key != work.Key {
		why = fmt.Sprintf("its label %s is %q, not %q", KeyLabel, key, work.Key)
	}
	return &steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("%s exists, and is not this step's (%s): delete it and retry the canary",
		s.Named(object.GetNamespace(), object.GetName()), why)}
}

// Gone is the Progress of a step whose object does not exist any more.
func (s Store) Gone(namespace, name string) steps.Progress {
	return steps.Progress{Phase: steps.Failed, Message: s.Named(namespace, name) + " was deleted, or has expired after its end; " + NotAgain}
}

// Delete deletes an object that was read, and nothing else of its name. One that is gone is no
// error.
func (s Store) Delete(ctx context.Context, object metav1.Object) error {
	err := s.Objects.Delete(ctx, s.Resource, object.GetNamespace(), object.GetName(), object.GetUID())
	if err != nil && !apierrors.IsNotFound(err) {
		return s.Failure(s.Named(object.GetNamespace(), object.GetName())+" cannot be deleted", err)
	}
	return nil
}

// Remove deletes an object of an attempt at a step, if there is one. The error says what the
// object waits for while it is being deleted: it may still work.
func (s Store) Remove(ctx context.Context, work steps.Work, name string) error {
	namespace := work.Rollout.Namespace
	for deleted := false; ; deleted = true {
		var object metav1.PartialObjectMetadata
		found, err := s.Get(ctx, namespace, name, &object)
		switch {
		case err != nil || !found || !IsOf(&object, work):
			return err
		case object.DeletionTimestamp != nil:
			return fmt.Errorf("%s is being deleted, and waits for %s", s.Named(namespace, name), finalizersOf(&object))
		case deleted:
			return fmt.Errorf("%s was deleted, and is still there", s.Named(namespace, name))
		}
		if err := s.Delete(ctx, &object); err != nil {
			return err
		}
	}
}

func finalizersOf(object metav1.Object) string {
	if all := object.GetFinalizers(); len(all) > 0 {
		return "its finalizers " + strings.Join(all, ", ") + ", which its controller takes away when it has cleaned up"
	}
	return "the end of its deletion"
}
