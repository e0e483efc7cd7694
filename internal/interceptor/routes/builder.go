package routes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Builder makes Tables of what it is told. It is for one goroutine; its Tables
// are for all. It keeps nothing of the objects it is given.
//
// The first Commit belongs after everything there is has been set: an object
// whose Services are not known yet would be told of, and a split without a last
// good one to go on with would not be served.
type Builder struct {
	objects  map[types.NamespacedName]*object
	services map[types.NamespacedName]*backing
	slices   map[types.NamespacedName]*slice
	shadows  shadows
	disputes disputes
	budget   budget
	// dirty are the objects to decide again.
	dirty map[*object]struct{}

	table *Table
	// before has the last good forms and splits where it is not table.
	before *Table

	// panics are those that were told of last.
	panics  map[subject]string
	onPanic func(kind string, name types.NamespacedName, cause any, stack []byte)
	// fault is called before each step, and panics; nil outside of tests.
	fault func(what step, name types.NamespacedName)
}

// object is what is known of an HTTPScaledObject.
type object struct {
	name types.NamespacedName
	// declared is nil once the object is deleted, until the next Commit.
	declared *declared
	// uses are the Services it asks for.
	uses []*backing
	// found are the problems that need no other object to be seen, but for its
	// place.
	found []Problem
	// charged is what it is charged for in the budget, nil for nothing, and place
	// what it got.
	charged *matcher
	place   place
	// uncompared is why it was not compared with others since its hosts and paths
	// changed; empty when it was.
	uncompared string
}

// backing is what is known of a Service, by a name that anybody speaks of.
type backing struct {
	name    types.NamespacedName
	service *service // nil while there is none
	slices  []*slice
	users   map[*object]struct{}
}

// NewBuilder returns a Builder that knows nothing.
func NewBuilder() *Builder { return NewBuilderOf(DefaultPolicy()) }

// NewBuilderOf returns a Builder of tables that follow a policy.
func NewBuilderOf(p Policy) *Builder {
	return &Builder{
		objects:  make(map[types.NamespacedName]*object),
		services: make(map[types.NamespacedName]*backing),
		slices:   make(map[types.NamespacedName]*slice),
		shadows:  make(shadows),
		disputes: newDisputes(),
		budget:   newBudget(p),
		dirty:    make(map[*object]struct{}),
		table:    &Table{view: view{owned: p.HostOwnership, roomy: p.roomy()}},
		panics:   make(map[subject]string),
	}
}

// SetHTTPScaledObject makes an object known, or known as it is now.
func (b *Builder) SetHTTPScaledObject(is *httpv1alpha1.HTTPScaledObject) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	o := b.objects[name]
	if o == nil {
		o = &object{name: name}
		b.objects[name] = o
	}
	now := b.check(is, o.declared)
	// Most changes of an object are of its status.
	if o.declared != nil && o.declared.equal(now) {
		return
	}
	o.declared = now
	b.dirty[o] = struct{}{}
}

// DeleteHTTPScaledObject forgets an object, and its last good form and split.
func (b *Builder) DeleteHTTPScaledObject(name types.NamespacedName) {
	delete(b.panics, subject{httpScaledObjectKind, name})
	if o := b.objects[name]; o != nil {
		o.declared = nil
		b.dirty[o] = struct{}{}
	}
}

// SetService makes a Service known, or known as it is now.
func (b *Builder) SetService(is *corev1.Service) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	var now *service
	if b.attempt(readAService, "Service", name, func() { now = readService(is) }) != "" {
		return // it is as it was
	}
	s := b.backing(name)
	if s.service == nil || !s.service.equal(now) {
		s.service = now
		b.touch(s)
	}
}

// DeleteService forgets a Service.
func (b *Builder) DeleteService(name types.NamespacedName) {
	delete(b.panics, subject{"Service", name})
	if s := b.services[name]; s != nil && s.service != nil {
		s.service = nil
		b.touch(s)
		b.release(s)
	}
}

// SetEndpointSlice makes an EndpointSlice known, or known as it is now.
func (b *Builder) SetEndpointSlice(is *discoveryv1.EndpointSlice) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	var now *slice
	if b.attempt(readASlice, "EndpointSlice", name, func() { now = readSlice(is) }) != "" {
		return // it is as it was
	}
	old := b.slices[name]
	if old != nil && now != nil && old.equal(now) {
		return
	}
	b.DeleteEndpointSlice(name)
	if now == nil {
		return
	}
	b.slices[name] = now
	s := b.backing(now.service)
	s.slices = append(s.slices, now)
	b.touch(s)
}

// DeleteEndpointSlice forgets an EndpointSlice.
func (b *Builder) DeleteEndpointSlice(name types.NamespacedName) {
	delete(b.panics, subject{"EndpointSlice", name})
	old := b.slices[name]
	if old == nil {
		return
	}
	delete(b.slices, name)
	s := b.services[old.service]
	s.slices = slices.DeleteFunc(s.slices, func(other *slice) bool { return other == old })
	b.touch(s)
	b.release(s)
}

// backing returns what is known of a Service, to note more.
func (b *Builder) backing(name types.NamespacedName) *backing {
	s := b.services[name]
	if s == nil {
		s = &backing{name: name}
		b.services[name] = s
	}
	return s
}

// release forgets a name that nobody speaks of any more.
func (b *Builder) release(s *backing) {
	if s.service == nil && len(s.slices) == 0 && len(s.users) == 0 {
		delete(b.services, s.name)
	}
}

// touch has every object decided again that asks for a Service.
func (b *Builder) touch(s *backing) {
	for o := range s.users {
		b.dirty[o] = struct{}{}
	}
}

// Table returns the table of the last Commit; an empty one before the first.
func (b *Builder) Table() *Table { return b.table }

// Commit makes the table of all that is known now, and says how it differs from
// the one before. When it does not, it is the one before. Set and Delete cost
// little until then: call Commit once for all that came together.
func (b *Builder) Commit() (*Table, Changes) {
	c := commit{Builder: b, next: *b.table, moved: make(map[site]movement), movedHosts: make(map[string][]*matcher), told: make(map[*object]struct{}), uncharged: make(map[*object]string)}
	c.allot()
	for o := range b.dirty {
		c.decideOrKeep(o)
	}
	c.settleHosts()
	c.lookForShadows()
	c.tell()
	// Not cleared: going through a map takes as long as it was ever large.
	b.dirty = make(map[*object]struct{}, len(c.again))
	for _, o := range c.again {
		b.dirty[o] = struct{}{}
	}
	if c.changes.Empty() {
		return b.table, Changes{}
	}
	c.changes.sort()
	c.next.generation++
	b.table = &c.next
	return b.table, c.changes
}

// Inputs is all that a table is made of.
type Inputs struct {
	HTTPScaledObjects []*httpv1alpha1.HTTPScaledObject
	Services          []*corev1.Service
	EndpointSlices    []*discoveryv1.EndpointSlice
}

// Build makes a table from nothing but all of its inputs and the table before,
// which has the last good forms and splits; nil when there is none. It is what a
// Builder arrives at by steps.
func Build(inputs Inputs, before *Table) *Table {
	return NewBuilder().build(inputs, before)
}

func (b *Builder) build(inputs Inputs, before *Table) *Table {
	b.before = before
	for _, is := range inputs.Services {
		b.SetService(is)
	}
	for _, is := range inputs.EndpointSlices {
		b.SetEndpointSlice(is)
	}
	for _, is := range inputs.HTTPScaledObjects {
		b.SetHTTPScaledObject(is)
	}
	table, _ := b.Commit()
	return table
}

// link notes which Services an object asks for; names is sorted.
func (b *Builder) link(o *object, names []string) {
	if slices.EqualFunc(o.uses, names, func(s *backing, name string) bool { return s.name.Name == name }) {
		return
	}
	before := o.uses
	o.uses = make([]*backing, len(names))
	for i, name := range names {
		s := b.backing(types.NamespacedName{Namespace: o.name.Namespace, Name: name})
		if s.users == nil {
			s.users = make(map[*object]struct{}, 1)
		}
		s.users[o] = struct{}{}
		o.uses[i] = s
	}
	for _, s := range before {
		if !slices.Contains(o.uses, s) {
			delete(s.users, o)
			b.release(s)
		}
	}
}
