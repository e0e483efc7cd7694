package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// observer watches the Rollouts of a namespace, so that changes of one are seen at
// once.
type observer struct {
	stop context.CancelFunc

	mu       sync.Mutex
	rollouts map[string]*v1alpha1.Rollout
	// changed is closed at the next change of a Rollout.
	changed map[string]chan struct{}
}

func (w *world) observe(ctx context.Context, namespace string) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{stop: cancel, rollouts: map[string]*v1alpha1.Rollout{}, changed: map[string]chan struct{}{}}
	informer := dynamicinformer.NewFilteredDynamicInformer(w.client, v1alpha1.RolloutGVR, namespace, 0, cache.Indexers{}, nil).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.see,
		UpdateFunc: func(_, object any) { o.see(object) },
	}); err != nil {
		cancel()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		cancel()
		return nil, ctx.Err()
	}
	return o, nil
}

func (o *observer) see(object any) {
	ro, err := typed(object.(*unstructured.Unstructured))
	if err != nil {
		gauge.Say("a Rollout that cannot be read: %v", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rollouts[ro.Name] = ro
	if changed := o.changed[ro.Name]; changed != nil {
		close(changed)
		delete(o.changed, ro.Name)
	}
}

// of returns a Rollout that was seen before.
func (o *observer) of(name string) *v1alpha1.Rollout {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rollouts[name]
}

// patience is how long to wait for a Rollout; it allows for a busy machine.
const patience = 2 * time.Minute

// await waits until wanted is true of a Rollout.
func (o *observer) await(ctx context.Context, name, what string, wanted func(*v1alpha1.Rollout) bool) error {
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		ro, changed := o.rollouts[name], o.changed[name]
		if changed == nil {
			changed = make(chan struct{})
			o.changed[name] = changed
		}
		o.mu.Unlock()
		if ro != nil && wanted(ro) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("not within %s: Rollout %s: %s; it is %s", patience, name, what, state(ro))
		}
	}
}

// state describes the state of a Rollout for people.
func state(ro *v1alpha1.Rollout) string {
	if ro == nil {
		return "not there"
	}
	text, err := json.Marshal(map[string]any{"generation": ro.Generation, "status": ro.Status})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
