package gatewayapi

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// store reads and writes the routes of a cluster.
type store struct {
	*kube.Group
	// reports is told of each write.
	reports   reports
	mirroring mirrorSupport
	// watchesAll is true once the routes of all kinds that the cluster serves are watched.
	watchesAll atomic.Bool
}

var _ trafficrouter.Store[*unstructured.Unstructured] = (*store)(nil)

// rolloutKeys are the Rollouts that have something on a route.
func rolloutKeys(meta *metav1.ObjectMeta) []string {
	written, ok := meta.Annotations[Annotation]
	if !ok {
		return nil
	}
	route := &unstructured.Unstructured{Object: map[string]any{}}
	route.SetNamespace(meta.Namespace)
	route.SetName(meta.Name)
	route.SetAnnotations(map[string]string{Annotation: written})
	var keys []string
	for _, on := range RolloutsOn(route) {
		if key := on.Rollout.String(); len(keys) == 0 || keys[len(keys)-1] != key {
			keys = append(keys, key)
		}
	}
	return keys
}

// rolloutNamed reads a key of rolloutKeys.
func rolloutNamed(key string) types.NamespacedName {
	namespace, name, _ := strings.Cut(key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Find returns the routes of a query by name or labels.
func (s *store) Find(ctx context.Context, q trafficrouter.Query) ([]*unstructured.Unstructured, error) {
	if q.Name == "" {
		return s.List(ctx, q.Kind, q.Namespace, q.Labels)
	}
	route, err := s.Get(ctx, q.Kind, q.Namespace, q.Name)
	if err != nil {
		return nil, err
	}
	return []*unstructured.Unstructured{route}, nil
}

// Having returns the routes that have something of a Rollout.
func (s *store) Having(ctx context.Context, q trafficrouter.Query, wait time.Duration) ([]*unstructured.Unstructured, bool, error) {
	return s.Indexed(ctx, q.Kind, q.Rollout.String(), wait)
}

// States returns the states of what Find or Having would return.
func (s *store) States(q trafficrouter.Query) ([]kube.State, bool) {
	switch {
	case q.Name != "":
		state, ok := s.State(q.Kind, q.Namespace, q.Name)
		if state == (kube.State{}) {
			return nil, ok
		}
		return []kube.State{state}, ok
	case q.Labels != nil:
		return s.ListStates(q.Kind, q.Namespace, q.Labels)
	}
	return s.IndexedStates(q.Kind, q.Rollout.String())
}

// StateOf returns the state in which a route was read.
func (s *store) StateOf(route *unstructured.Unstructured) kube.State { return kube.StateOf(route) }

// Watched returns a route from the watch.
func (s *store) Watched(ref trafficrouter.Ref) (*unstructured.Unstructured, bool) {
	return s.Group.Watched(ref.Kind, ref.Namespace, ref.Name)
}

// Read asks the API server for a route.
func (s *store) Read(ctx context.Context, ref trafficrouter.Ref) (*unstructured.Unstructured, error) {
	return s.Group.Read(ctx, ref.Kind, ref.Namespace, ref.Name)
}

// Write turns a route, as it was read, into desired. If the API server stores a mirror
// without its percentage, so that it would mirror all requests, Write undoes that and
// returns a conflict: the next decision knows that the cluster has no such field.
func (s *store) Write(ctx context.Context, current, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	written, err := s.Group.Write(ctx, current, desired)
	if err != nil {
		return nil, err
	}
	lost := s.mirroring.learn(written, desired)
	if lost {
		before := current.DeepCopy()
		before.SetResourceVersion(written.GetResourceVersion())
		if written, err = s.Group.Write(ctx, written, before); err != nil {
			return nil, err
		}
	}
	s.reports.wrote(refOf(written), written)
	if lost {
		return nil, apierrors.NewConflict(Kind(current.GetKind()).groupResource(), current.GetName(), errMirrorPercent)
	}
	return written, nil
}

// Marks returns which routes have something of which Rollouts, of the kinds that are
// watched. It has all kinds watched as soon as the cluster says which kinds it serves: a
// Rollout may have been deleted before this process began, and no other Rollout may name
// routes of the kind.
func (s *store) Marks(ctx context.Context) []trafficrouter.Mark {
	s.watchAll(ctx)
	var marks []trafficrouter.Mark
	for _, kind := range Kinds {
		routes, _ := s.Keyed(string(kind))
		for _, route := range routes {
			ref := trafficrouter.Query{Kind: string(kind), Namespace: route.Namespace, Name: route.Name}.Ref()
			// More Rollouts than rules cannot share a route. So an annotation with thousands
			// of names costs no more; the next look goes on with the others.
			for _, key := range route.Keys[:min(len(route.Keys), maxRules)] {
				marks = append(marks, trafficrouter.Mark{Object: ref, Rollout: rolloutNamed(key), Labels: labels.Set(route.Labels).String()})
			}
		}
	}
	return marks
}

// watchAll starts to watch the routes of all kinds that the cluster serves. A kind that the
// cluster does not serve now is watched from its first use on.
func (s *store) watchAll(ctx context.Context) {
	if s.watchesAll.Load() {
		return
	}
	known := true
	for _, kind := range Kinds {
		err := s.Watch(ctx, string(kind))
		known = known && (err == nil || trafficrouter.IsMissing(err))
	}
	s.watchesAll.Store(known)
}
