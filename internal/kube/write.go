package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// refusedFor is how long a refused patch is remembered. A grant that comes later
// is used after that.
const refusedFor = 10 * time.Minute

// Write turns current, an object as Get, List, Indexed or Read have returned it, into
// desired, in one request: a merge patch of what differs, or an update where patch is
// not granted. It writes neither the status nor the metadata that the API server
// maintains, and cannot set a field to null. If the object has changed since current
// was read, or the version of current is no longer served, the error is one for which
// apierrors.IsConflict is true. After an error nothing has changed, except after an
// error of the connection, when the outcome is unknown, and when the error says that
// the object was written.
//
// Write returns the object as written, and a Get that follows sees it or a later
// state. When there is no difference it makes no request and returns current.
func (g *Group) Write(ctx context.Context, current, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind, namespace, name := current.GetKind(), current.GetNamespace(), current.GetName()
	if group := current.GroupVersionKind().Group; group != g.opts.Group {
		return nil, fmt.Errorf("%s %s/%s is of group %q, not of %s", kind, namespace, name, group, g.opts.Group)
	}
	if desired.GroupVersionKind() != current.GroupVersionKind() || desired.GetNamespace() != namespace || desired.GetName() != name {
		return nil, fmt.Errorf("%s %s/%s cannot be made into %s %s/%s", kind, namespace, name, desired.GetKind(), desired.GetNamespace(), desired.GetName())
	}
	if current.GetResourceVersion() == "" {
		return nil, fmt.Errorf("%s %s/%s has no resourceVersion: it has not been read from a cluster", kind, namespace, name)
	}
	patch, err := mergePatch(current, desired)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", kind, namespace, name, err)
	}
	if patch == nil {
		return current, nil
	}
	s, err := g.source(ctx, kind)
	if err != nil {
		return nil, err
	}
	resource, ok := g.discovery.inVersion(current.GroupVersionKind().Version, kind)
	if !ok {
		return nil, versionGone(resource, current)
	}
	text, err := g.send(ctx, s.client, resource, patch, current, desired)
	switch {
	case IsPathUnknown(err):
		return nil, g.pathGone(ctx, kind, resource, current, err)
	case apierrors.IsNotFound(err):
		s.written.forgetDeleted(namespace + "/" + name)
	}
	if err != nil {
		return nil, err
	}
	written, err := g.answered(kind, text, (*watched[*encoded]).wrote)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s was written, and the answer cannot be read: %w", kind, namespace, name, err)
	}
	return written.decode()
}

// send writes by a patch where it is granted, else by an update.
func (g *Group) send(ctx context.Context, client rest.Interface, resource schema.GroupVersionResource, patch map[string]any, current, desired *unstructured.Unstructured) ([]byte, error) {
	where := refusal{resource.GroupResource(), current.GetNamespace()}
	var refused error
	if !g.refused.has(where) {
		text, err := g.patch(ctx, client, resource, patch, current)
		if !apierrors.IsForbidden(err) {
			return text, err
		}
		refused = err
	}
	text, err := g.update(ctx, client, resource, current, desired)
	switch {
	case apierrors.IsForbidden(err) && refused == nil:
		// Grants may have changed: the next write tries a patch again.
		g.refused.forget(where)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w; patch is refused, too: %w", err, refused)
	case refused != nil:
		// An admission webhook would have refused both.
		g.refused.add(where)
		g.opts.Logger.Info("patch is not granted: writing by update", "resource", where.resource.String(), "namespace", where.namespace, "error", refused)
	}
	return text, err
}

func (g *Group) patch(ctx context.Context, client rest.Interface, resource schema.GroupVersionResource, patch map[string]any, current *unstructured.Unstructured) ([]byte, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = current.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return body(at(client.Patch(types.MergePatchType), resource, current.GetNamespace()).
		Name(current.GetName()).Param("fieldManager", g.opts.FieldManager).Body(text).Do(ctx))
}

func (g *Group) update(ctx context.Context, client rest.Interface, resource schema.GroupVersionResource, current, desired *unstructured.Unstructured) ([]byte, error) {
	object := desired.DeepCopy()
	object.SetResourceVersion(current.GetResourceVersion())
	// If they are left out, the API server keeps them as they are.
	object.SetManagedFields(nil)
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	return body(at(client.Put(), resource, current.GetNamespace()).
		Name(current.GetName()).Param("fieldManager", g.opts.FieldManager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(text).Do(ctx))
}

// pathGone is the error of a write to a version that the API server does not know.
func (g *Group) pathGone(ctx context.Context, kind string, resource schema.GroupVersionResource, current *unstructured.Unstructured, err error) error {
	if err := g.discovery.refresh(ctx); err != nil {
		return err
	}
	if _, err := g.discovery.lookup(kind); err != nil {
		return err
	}
	if _, served := g.discovery.inVersion(resource.Version, kind); served {
		return notYetServed(kind, resource, err)
	}
	return versionGone(resource, current)
}

func versionGone(resource schema.GroupVersionResource, current *unstructured.Unstructured) error {
	return apierrors.NewConflict(resource.GroupResource(), current.GetName(),
		fmt.Errorf("%s is no longer served in version %s", current.GetKind(), current.GetAPIVersion()))
}

// refusal is where a patch was refused: grants are by namespace.
type refusal struct {
	resource  schema.GroupResource
	namespace string
}

// refusals remembers refused patches for a while.
type refusals struct {
	mu    sync.Mutex
	until map[refusal]time.Time
}

func (r *refusals) has(where refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[where])
}

func (r *refusals) forget(where refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, where)
}

func (r *refusals) add(where refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[refusal]time.Time{}
	}
	r.until[where] = time.Now().Add(refusedFor)
}
