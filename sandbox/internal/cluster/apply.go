package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

const (
	// fieldManager owns what the sandbox applies.
	fieldManager = "sandbox"
	// applyTimeout bounds the retries of one object. They are for errors of an API
	// server that has just started or has just learnt a new kind.
	applyTimeout = 2 * time.Minute
	// applyAtOnce bounds how many objects are applied at the same time.
	applyAtOnce = 8
)

// applier applies objects to the cluster, server-side.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(config *rest.Config) (*applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &applier{
		client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
	}, nil
}

// namespaced is an object with the namespace that it goes into if it is of a
// namespaced kind and names none.
type namespaced struct {
	*unstructured.Unstructured
	namespace string
}

// apply applies the objects in three rounds, the objects of a round concurrently:
// namespaces and custom resource definitions, then what workloads need, then
// workloads.
func (a *applier) apply(ctx context.Context, manifests []addon.Manifests) error {
	for _, round := range rounds(manifests) {
		if err := a.applyRound(ctx, round); err != nil {
			return err
		}
		if err := a.awaitEstablished(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// rounds sorts objects into rounds, each of which needs the objects of the rounds
// before.
func rounds(manifests []addon.Manifests) [3][]namespaced {
	var sorted [3][]namespaced
	for _, m := range manifests {
		for _, object := range m.Objects {
			round := 1
			switch object.GetKind() {
			case "Namespace", "CustomResourceDefinition":
				round = 0
			case "Deployment", "StatefulSet", "DaemonSet", "Job", "Pod":
				round = 2
			}
			sorted[round] = append(sorted[round], namespaced{object, m.Namespace})
		}
	}
	return sorted
}

func (a *applier) applyRound(ctx context.Context, objects []namespaced) error {
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, applyAtOnce)
		errs  = make([]error, len(objects))
	)
	for i, object := range objects {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = a.applyOne(ctx, object)
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (a *applier) applyOne(ctx context.Context, object namespaced) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	var permanent error
	err := poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		client, err := a.resource(object)
		if err == nil {
			_, err = client.Apply(ctx, object.GetName(), object.Unstructured, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		}
		if err != nil && !transient(err) {
			permanent, err = err, nil
		}
		return err
	})
	if err == nil {
		err = permanent
	}
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// resource returns the client for the object's kind and namespace.
func (a *applier) resource(object namespaced) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		if meta.IsNoMatchError(err) {
			a.mapper.Reset() // the kind may be new
		}
		return nil, err
	}
	client := a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client, nil
	}
	if own := object.GetNamespace(); own != "" {
		return client.Namespace(own), nil
	}
	return client.Namespace(object.namespace), nil
}

// transient says whether an error of the API server is worth another try.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// No answer, or a kind that discovery does not have yet.
		return true
	}
	return apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err)
}

// awaitEstablished waits until the API server serves the custom resource
// definitions among the objects.
func (a *applier) awaitEstablished(ctx context.Context, objects []namespaced) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		err := poll(ctx, 50*time.Millisecond, func(ctx context.Context) error {
			client, err := a.resource(object)
			if err != nil {
				return err
			}
			current, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !hasCondition(current, "Established") {
				return errors.New("not established yet")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// hasCondition says whether the object's status has the condition as True.
func hasCondition(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == kind && condition["status"] == "True" {
			return true
		}
	}
	return false
}
