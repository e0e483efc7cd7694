package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served asks the API server for the resource of a kind in one version, and whether its objects
// have a namespace. A kind that the cluster does not serve in that version is a *NotServedError.
func (o *Objects) Served(ctx context.Context, of schema.GroupVersionKind) (resource schema.GroupVersionResource, namespaced bool, err error) {
	client, err := o.connection()
	if err != nil {
		return resource, false, err
	}
	all, err := servedResources(ctx, client, of.GroupVersion())
	if err != nil {
		return resource, false, err
	}
	for _, r := range all {
		if r.Kind == of.Kind {
			return of.GroupVersion().WithResource(r.Name), r.Namespaced, nil
		}
	}
	return resource, false, &NotServedError{Group: of.GroupVersion().String(), Kind: of.Kind}
}

// ServedInAny asks the API server for the resource of a kind in whichever version of its group has
// it, the preferred one before others: a version may go while objects that were made in it stay. A
// kind that the cluster does not serve at all is a *NotServedError.
func (o *Objects) ServedInAny(ctx context.Context, of schema.GroupKind) (schema.GroupVersionResource, error) {
	client, err := o.connection()
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	all, err := ServedKinds(ctx, client, of.Group)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	if resource, has := all[of.Kind]; has {
		return resource, nil
	}
	return schema.GroupVersionResource{}, &NotServedError{Group: of.Group, Kind: of.Kind}
}
