package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

const (
	redrawInterval = 250 * time.Millisecond

	// liveInterval is how often a log without a terminal has a line on the requests.
	liveInterval = 3 * time.Second
)

// view shows what happens while it happens: a line for each change, and on a terminal
// the present moment below. It judges nothing.
type view struct {
	p   *player
	ctx context.Context // ends when nothing more is to be shown

	mu sync.Mutex
	// names are the Rollouts in the order in which they are shown, rollouts their states.
	names    []string
	rollouts map[string]*v1alpha1.Rollout
	// carrier is what people call the place of the split; both are empty without one.
	carrier, split string
	// analysis is what was shown of the analysis last, and events the events that were.
	analysis string
	events   map[string]bool
	load     *traffic.Load // nil before the first request
}

// newView returns a view that goes on until the demo ends, or until it is stopped.
func newView(p *player) (v *view, stop func()) {
	ctx, cancel := context.WithCancel(p.ctx)
	v = &view{p: p, ctx: ctx, rollouts: map[string]*v1alpha1.Rollout{}, events: map[string]bool{}}
	var drawing sync.WaitGroup
	drawing.Go(v.draw)
	stop = func() { cancel(); drawing.Wait() }
	p.Cleanup(stop)
	return v, stop
}

// draw draws the panel, or writes a line on the requests now and then.
func (v *view) draw() {
	redraw := time.NewTicker(redrawInterval)
	defer redraw.Stop()
	said := time.Now()
	for {
		select {
		case <-v.ctx.Done():
			return
		case <-redraw.C:
		}
		if v.p.screen.terminal {
			if err := v.p.screen.Panel(v.panel()); err != nil {
				return // the next line that stays reports it
			}
		} else if seen := v.requests(); seen != nil && time.Since(said) > liveInterval {
			v.p.say(Plain, "%s", seen.line())
			said = time.Now()
		}
	}
}

// requests returns what there is to see of the requests; nil before the first answer.
func (v *view) requests() *requests {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.load == nil {
		return nil
	}
	answers := v.load.Since(0)
	if len(answers) == 0 {
		return nil
	}
	r := requestsOf(answers)
	return &r
}

// showLoad lets the view show the answers of a load.
func (v *view) showLoad(load *traffic.Load) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.load = load
}

// panel is what a terminal shows of the present moment.
func (v *view) panel() []Line {
	seen := v.requests()
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := []Line{{strings.Repeat("─", 76), Dim}}
	for _, name := range v.names {
		lines = append(lines, rolloutPanel(name, v.rollouts[name])...)
	}
	if seen != nil {
		lines = append(lines, seen.panel()...)
	}
	if v.split != "" {
		lines = append(lines, Line{field(v.carrier, v.split), Good})
	}
	return lines
}

// follow calls show with every state of the objects of a resource in a namespace.
func (v *view) follow(n *e2etest.Namespace, resource schema.GroupVersionResource, show func(*unstructured.Unstructured)) {
	informer := dynamicinformer.NewFilteredDynamicInformer(n.Dynamic, resource, n.Name, 0, cache.Indexers{}, nil).Informer()
	err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if v.ctx.Err() == nil {
			v.p.say(Dim, "watching %s: %v; trying again", resource.Resource, err)
		}
	})
	if err != nil {
		v.p.Fatal(err)
	}
	each := func(object any) {
		if state, ok := object.(*unstructured.Unstructured); ok && v.ctx.Err() == nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			show(state)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: each, UpdateFunc: func(_, object any) { each(object) }}); err != nil {
		v.p.Fatal(err)
	}
	go informer.Run(v.ctx.Done())
}

// typed reads an object into its type.
func typed[T any](v *view, object *unstructured.Unstructured) *T {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		v.p.say(Bad, "%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return into
}

// followRollouts shows the Rollouts of a namespace under their names, as name makes them.
func (v *view) followRollouts(n *e2etest.Namespace, name func(string) string) {
	v.follow(n, v1alpha1.RolloutGVR, func(object *unstructured.Unstructured) {
		now := typed[v1alpha1.Rollout](v, object)
		if now.Status.ObservedGeneration != strconv.FormatInt(now.Generation, 10) || now.Spec.Strategy.Canary == nil {
			return // its status is of an older spec
		}
		name := name(now.Name)
		before, known := v.rollouts[name]
		if !known {
			before = &v1alpha1.Rollout{}
			v.names = append(v.names, name)
			slices.Sort(v.names)
		}
		v.rollouts[name] = now
		for _, line := range changes(before, now) {
			v.p.say(line.Style, "%s", label(name, line.Text))
		}
	})
}

// followSplit shows the split that an object carries.
func (v *view) followSplit(n *e2etest.Namespace, c carrier) {
	v.carrier = c.called
	v.follow(n, c.resource, func(object *unstructured.Unstructured) {
		if object.GetName() != c.object {
			return
		}
		if now := c.read(object); now != v.split {
			v.split = now
			v.p.say(Plain, "%s", label(c.called, now))
		}
	})
}

// followAnalysis shows each measurement of the AnalysisRuns of a namespace.
func (v *view) followAnalysis(n *e2etest.Namespace) {
	v.follow(n, v1alpha1.AnalysisRunGVR, func(object *unstructured.Unstructured) {
		text, style := describeAnalysis(typed[v1alpha1.AnalysisRun](v, object))
		if text != "" && text != v.analysis {
			v.analysis = text
			v.p.say(style, "%s", label("analysis", text))
		}
	})
}

// followEvents shows the events of Rollouts in a namespace, and warnings about anything.
func (v *view) followEvents(n *e2etest.Namespace) {
	v.follow(n, corev1.SchemeGroupVersion.WithResource("events"), func(object *unstructured.Unstructured) {
		event := typed[corev1.Event](v, object)
		about := event.InvolvedObject
		text, style := fmt.Sprintf("%s: %s", event.Reason, event.Message), Dim
		if about.Kind != "Rollout" {
			text = fmt.Sprintf("%s %s: %s", about.Kind, about.Name, text)
		}
		// An event that happens again comes again, with a higher count. A warning that is
		// repeated with each retry is shown once.
		key := fmt.Sprintf("%s/%d", event.UID, event.Count)
		if event.Type != corev1.EventTypeNormal {
			style, key = Bad, text
		} else if about.Kind != "Rollout" {
			return
		}
		if !v.events[key] {
			v.events[key] = true
			v.p.say(style, "%s", label("event", text))
		}
	})
}
