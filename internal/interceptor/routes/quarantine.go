package routes

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// OnPanic sets the function that is called, for the log, when the processing of one
// object panics, with the kind and name of the object, the cause and the stack. The
// object is served as it was before, and all others are served. The same panic over the
// same object is reported once.
func (b *Builder) OnPanic(tell func(kind string, name types.NamespacedName, cause any, stack []byte)) {
	b.onPanic = tell
}

// step is one thing that is done for one object.
type step string

const (
	readSplit        step = "read its split"
	readSpec         step = "read its spec"
	countItsMatches  step = "count its matches"
	chargeBudget     step = "charge it for its wildcards"
	makeRoute        step = "make its route"
	removeRoute      step = "remove its route"
	compareHosts     step = "compare its hosts with those of others"
	compareSites     step = "compare its paths and headers with those of others"
	tellProblems     step = "list what is wrong with it"
	refreshEndpoints step = "look at its endpoints"
	readAService     step = "read the Service"
	readASlice       step = "read the EndpointSlice"
)

// subject is an object of any kind.
type subject struct {
	kind string
	name types.NamespacedName
}

// attempt takes a step for one object, and recovers from a panic: failure then says
// what failed, and is empty otherwise.
func (b *Builder) attempt(what step, kind string, name types.NamespacedName, do func()) (failure string) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		failure = fmt.Sprintf("the interceptor failed to %s (%s), which is an error of its own: its log has more", what, inOneLine(cause))
		is := subject{kind, name}
		if b.panics[is] == failure {
			return
		}
		b.panics[is] = failure
		if b.onPanic != nil {
			b.onPanic(kind, name, cause, debug.Stack())
		}
	}()
	if b.fault != nil {
		b.fault(what, name)
	}
	do()
	return ""
}

// inOneLine shortens the cause of a panic to one line, for Events.
func inOneLine(cause any) string {
	return shorten(strings.Join(strings.Fields(fmt.Sprint(cause)), " "), 200)
}

const httpScaledObjectKind = "HTTPScaledObject"

// check checks an object by itself. old is what was known of the object before.
func (b *Builder) check(object *httpv1alpha1.HTTPScaledObject, old *checkedObject) *checkedObject {
	d := &checkedObject{
		name: types.NamespacedName{Namespace: object.Namespace, Name: object.Name},
		uid:  object.UID, generation: object.Generation,

		accessLog: wantsAccessLog(object.Annotations),
	}
	if failure := b.attempt(readSplit, httpScaledObjectKind, d.name, func() { d.checkSplit(object, old) }); failure != "" {
		d.text, d.annotated = object.Annotations[weightedbackends.Annotation]
		d.split, d.splitErr, d.rollout = nil, failure, ""
	}
	var bad []Problem
	if failure := b.attempt(readSpec, httpScaledObjectKind, d.name, func() {
		bad = d.checkSpec(&object.Spec, object.CreationTimestamp.Time, d.checkAllowed(object.Annotations))
	}); failure != "" {
		bad, d.problems = []Problem{d.problem(InternalError, "spec", "%s", failure)}, nil
	}
	d.problems = append(d.problems, bad...)
	if len(bad) > 0 {
		d.spec = nil
	}
	return d
}

// decideOrKeep puts one object's route into the table. When that panics, the route
// in the table stays, with the current endpoints.
func (c *commit) decideOrKeep(o *object) {
	d, what := o.checked, makeRoute
	if d == nil {
		what = removeRoute
	}
	next, changes := c.next, c.changes
	failure := c.uncharged[o]
	if failure == "" {
		failure = c.attempt(what, httpScaledObjectKind, o.name, func() { c.decide(o) })
	}
	if failure == "" {
		return
	}
	c.next, c.changes = next, changes // undone: parts that both versions share are never changed
	if d == nil {
		c.objects[o.name] = o
		c.again = append(c.again, o)
		return
	}
	c.recheck[o] = struct{}{}
	o.found = []Problem{d.problem(InternalError, "spec", "%s", failure)}
	before := c.table.Route(o.name)
	switch {
	case before == nil:
		o.found = tellMeanwhile(o.found, meanwhileNothing)
	case before.UID != d.uid: // the route of a deleted object of this name
		c.replace(o.name, before, nil)
		o.found = tellMeanwhile(o.found, meanwhileNothing)
	default:
		o.found = tellMeanwhile(o.found, meanwhileLast)
		var fresh *Route
		if c.attempt(refreshEndpoints, httpScaledObjectKind, o.name, func() { fresh = c.refreshed(before) }) == "" {
			c.replace(o.name, before, fresh)
		}
	}
}

// compare runs do, which compares an object with others to find its problems, and keeps
// the failure if that panics.
func (c *commit) compare(what step, m *matcher, do func()) {
	failure := c.attempt(what, httpScaledObjectKind, m.name, do)
	if o := c.objects[m.name]; o != nil && failure != "" {
		o.uncompared = failure
		c.recheck[o] = struct{}{}
	}
}

// uncomparedProblem returns the Problem of an object that is served although the search
// for its problems panicked.
func (d *checkedObject) uncomparedProblem(failure string) Problem {
	return d.problem(InternalError, "spec", "%s; the object is served as it asks", failure)
}

// refreshed returns a route with the current endpoints.
func (b *Builder) refreshed(before *Route) *Route {
	fresh := *before
	fresh.Backends = slices.Clone(before.Backends)
	for i := range fresh.Backends {
		side := &fresh.Backends[i]
		side.Endpoints, _, _ = b.resolve(before.Name.Namespace, target{side.Service, before.spec.target.port})
	}
	shareOut(fresh.Backends)
	if f := before.Failover; f != nil {
		failover := *f
		failover.Endpoints, _, _ = b.resolve(before.Name.Namespace, before.spec.failover.target)
		fresh.Failover = &failover
	}
	return &fresh
}
