package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// splitAnnotation is the annotation that router Kedify writes.
const splitAnnotation = "http.kedify.io/weighted-backends"

const watchAgainAfter = 500 * time.Millisecond

// observation is one thing that a watch has delivered: exactly one of the
// pointers, or the error, is set.
type observation struct {
	at       time.Time
	revision uint64
	rollout  *v1alpha1.Rollout
	split    *string
	event    *corev1.Event
	analysis *Analysis
	job      *batchv1.Job
	err      error
}

// observer watches a Rollout, the object that carries its split, and the
// AnalysisRuns and events of their namespace.
type observer struct {
	client    dynamic.Interface
	namespace string
	out       chan observation
}

// observe starts the watches, which last until ctx ends.
func observe(ctx context.Context, client dynamic.Interface, in setting) <-chan observation {
	o := observer{client: client, namespace: in.namespace, out: make(chan observation, 256)}
	byName := func(name string) string { return fields.OneTermEqualSelector("metadata.name", name).String() }
	readSplit := func(object *unstructured.Unstructured) (observation, error) {
		text := in.read(object)
		return observation{split: &text}, nil
	}
	for _, w := range []struct {
		resource schema.GroupVersionResource
		selector string
		read     func(*unstructured.Unstructured) (observation, error)
	}{
		{v1alpha1.RolloutGVR, byName(in.rollout), readRollout},
		{in.resource, byName(in.object), readSplit},
		{v1alpha1.AnalysisRunGVR, "", readAnalysis},
		{corev1.SchemeGroupVersion.WithResource("events"), "", readEvent},
	} {
		go o.follow(ctx, w.resource, w.selector, w.read)
	}
	return o.out
}

// follow delivers every state of the selected objects, from now on. A watch
// that breaks off is begun again.
func (o observer) follow(ctx context.Context, resource schema.GroupVersionResource, selector string, read func(*unstructured.Unstructured) (observation, error)) {
	for ctx.Err() == nil {
		err := o.listAndWatch(ctx, resource, selector, read)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			o.deliver(ctx, observation{at: time.Now(), err: fmt.Errorf("watching %s: %w; trying again", resource.Resource, err)})
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgainAfter):
		}
	}
}

func (o observer) listAndWatch(ctx context.Context, resource schema.GroupVersionResource, selector string, read func(*unstructured.Unstructured) (observation, error)) error {
	client := o.client.Resource(resource).Namespace(o.namespace)
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	send := func(object *unstructured.Unstructured) error {
		observed, err := read(object)
		if err != nil {
			return err
		}
		observed.at = time.Now()
		if observed.revision, err = strconv.ParseUint(object.GetResourceVersion(), 10, 64); err != nil {
			return fmt.Errorf("resource version of %s: %w", object.GetName(), err)
		}
		o.deliver(ctx, observed)
		return nil
	}
	for i := range list.Items {
		if err := send(&list.Items[i]); err != nil {
			return err
		}
	}
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Error:
			return apierrors.FromObject(event.Object)
		case watch.Added, watch.Modified:
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("got a %T", event.Object)
			}
			if err := send(object); err != nil {
				return err
			}
		}
	}
	return errors.New("the watch has ended")
}

func (o observer) deliver(ctx context.Context, observed observation) {
	select {
	case o.out <- observed:
	case <-ctx.Done():
	}
}

func readRollout(object *unstructured.Unstructured) (observation, error) {
	ro := &v1alpha1.Rollout{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, ro)
	return observation{rollout: ro}, err
}

func readAnalysis(object *unstructured.Unstructured) (observation, error) {
	run := &v1alpha1.AnalysisRun{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, run); err != nil {
		return observation{}, err
	}
	analysis := analysisOf(run)
	return observation{analysis: &analysis}, nil
}

func readEvent(object *unstructured.Unstructured) (observation, error) {
	event := &corev1.Event{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, event)
	return observation{event: event}, err
}
