package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/webhook"
)

// triggers makes what the webhook has changed what users have written.
func triggers(ctx context.Context, c client.Client, out io.Writer) error {
	var all scaledobject.ScaledObjectList
	if err := ignoreNoKind(c.List(ctx, &all)); err != nil {
		return fmt.Errorf("listing ScaledObjects: %w", err)
	}
	var failed []error
	for i := range all.Items {
		object := &all.Items[i]
		patch := webhook.Undo(object.Spec.Triggers)
		if patch == nil {
			continue
		}
		text, err := json.Marshal(patch)
		if err == nil {
			err = c.Patch(ctx, object, client.RawPatch(types.JSONPatchType, text), client.FieldOwner(agent.Name))
		}
		if err != nil {
			failed = append(failed, gone(object, "ScaledObject", err))
			continue
		}
		_, _ = fmt.Fprintf(out, "ScaledObject %s/%s: its trigger is %s\n", object.Namespace, object.Name, scaledobject.KedifyHTTP)
	}
	return errors.Join(failed...)
}

// release takes from HTTPScaledObjects what would keep them from being deleted without the
// agent, and what would keep KEDA from scaling by them.
func release(ctx context.Context, c client.Client, out io.Writer) error {
	var all httpv1alpha1.HTTPScaledObjectList
	if err := ignoreNoKind(c.List(ctx, &all)); err != nil {
		return fmt.Errorf("listing HTTPScaledObjects: %w", err)
	}
	var failed []error
	for i := range all.Items {
		object := &all.Items[i]
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			before := object.DeepCopy()
			finalized := controllerutil.RemoveFinalizer(object, agent.Finalizer)
			_, notWired := object.Annotations[agent.NotWiredAnnotation]
			if !finalized && !notWired {
				return nil
			}
			delete(object.Annotations, agent.NotWiredAnnotation)
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := c.Patch(ctx, object, patch, client.FieldOwner(agent.Name)); err != nil {
				return errors.Join(err, c.Get(ctx, client.ObjectKeyFromObject(object), object))
			}
			_, _ = fmt.Fprintf(out, "HTTPScaledObject %s/%s: released\n", object.Namespace, object.Name)
			return nil
		})
		failed = append(failed, gone(object, "HTTPScaledObject", err))
	}
	return errors.Join(failed...)
}

// gone returns the error of writing an object, with the object's name; nil if the object is
// there no more.
func gone(object client.Object, kind string, err error) error {
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
}

// ignoreNoKind returns nil if the API server does not have a kind: KEDA may have gone before.
func ignoreNoKind(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
