package routes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Builder makes Tables of the objects that it is given. Only one goroutine may use it;
// any number may use its Tables. It keeps no references to the objects.
//
// Call Commit for the first time only after all existing objects have been set:
// otherwise an object whose Services are not known yet gets a Problem, and its split is
// not served, as there is no last good one to fall back to.
type Builder struct {
	objects  map[types.NamespacedName]*object
	services map[types.NamespacedName]*serviceState
	slices   map[types.NamespacedName]*slice
	shadows  shadows
	disputes disputes
	limit    matchLimit
	budget   budget
	// dirty are the objects to decide again.
	dirty map[*object]struct{}

	table *Table
	// before is the table with the last good forms and splits, nil if that is table, as
	// it is outside of tests.
	before *Table

	// panics has the last failure that was reported of each object.
	panics  map[subject]string
	onPanic func(kind string, name types.NamespacedName, cause any, stack []byte)
	// fault is called before each step, and panics; nil outside of tests.
	fault func(what step, name types.NamespacedName)
}

// object is what is known of an HTTPScaledObject.
type object struct {
	name types.NamespacedName
	// checked is nil once the object is deleted, until the next Commit.
	checked *checkedObject
	// uses are the Services that its route depends on.
	uses []*serviceState
	// found are its problems, without those that problemsOf adds.
	found []Problem
	// request is what it asks for of its namespace's matches, and noRoom tells that
	// they do not suffice for it.
	request matchRequest
	noRoom  bool
	// charged is what the budget charges it for, nil for nothing, and place what the
	// budget decided.
	charged *matcher
	place   place
	// uncompared is the failure because of which it was not compared with others since
	// its hosts and paths changed; empty if there was none.
	uncompared string
}

// serviceState is what is known of a Service that exists, has EndpointSlices or is used by
// an object.
type serviceState struct {
	name    types.NamespacedName
	service *service // nil while it does not exist
	slices  []*slice
	users   map[*object]struct{}
}

// NewBuilder returns an empty Builder with DefaultPolicy.
func NewBuilder() *Builder { return NewBuilderOf(DefaultPolicy()) }

// NewBuilderOf returns an empty Builder of tables that follow a policy.
func NewBuilderOf(p Policy) *Builder {
	return &Builder{
		objects:  make(map[types.NamespacedName]*object),
		services: make(map[types.NamespacedName]*serviceState),
		slices:   make(map[types.NamespacedName]*slice),
		shadows:  make(shadows),
		disputes: newDisputes(),
		limit:    matchLimit{most: p.MaxMatchesPerNamespace, namespaces: make(map[string]*matchCount)},
		budget:   newBudget(p),
		dirty:    make(map[*object]struct{}),
		table:    &Table{view: view{owned: p.HostOwnership, roomy: p.roomy()}},
		panics:   make(map[subject]string),
	}
}

// SetHTTPScaledObject adds an object, or replaces what is known of it.
func (b *Builder) SetHTTPScaledObject(is *httpv1alpha1.HTTPScaledObject) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	o := b.objects[name]
	if o == nil {
		o = &object{name: name}
		b.objects[name] = o
	}
	now := b.check(is, o.checked)
	// Most updates of an object change its status only.
	if o.checked != nil && o.checked.equal(now) {
		return
	}
	o.checked = now
	b.dirty[o] = struct{}{}
}

// DeleteHTTPScaledObject forgets an object, and its last good form and split.
func (b *Builder) DeleteHTTPScaledObject(name types.NamespacedName) {
	delete(b.panics, subject{httpScaledObjectKind, name})
	if o := b.objects[name]; o != nil {
		o.checked = nil
		b.dirty[o] = struct{}{}
	}
}

// SetService adds a Service, or replaces what is known of it.
func (b *Builder) SetService(is *corev1.Service) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	var now *service
	if b.attempt(readAService, "Service", name, func() { now = readService(is) }) != "" {
		return // what was known of it stays
	}
	s := b.serviceState(name)
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

// SetEndpointSlice adds an EndpointSlice, or replaces what is known of it.
func (b *Builder) SetEndpointSlice(is *discoveryv1.EndpointSlice) {
	name := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	var now *slice
	if b.attempt(readASlice, "EndpointSlice", name, func() { now = readSlice(is) }) != "" {
		return // what was known of it stays
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
	s := b.serviceState(now.service)
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

// serviceState returns the entry of a Service, a new one if there is none.
func (b *Builder) serviceState(name types.NamespacedName) *serviceState {
	s := b.services[name]
	if s == nil {
		s = &serviceState{name: name}
		b.services[name] = s
	}
	return s
}

// release forgets a Service that does not exist, has no EndpointSlices and is used by
// no object.
func (b *Builder) release(s *serviceState) {
	if s.service == nil && len(s.slices) == 0 && len(s.users) == 0 {
		delete(b.services, s.name)
	}
}

// touch marks every object that uses a Service to be decided again.
func (b *Builder) touch(s *serviceState) {
	for o := range s.users {
		b.dirty[o] = struct{}{}
	}
}

// Table returns the table of the last Commit, and an empty one before the first.
func (b *Builder) Table() *Table { return b.table }

// Commit makes the table of all that is known now, and returns how it differs from the
// one before. If nothing differs, it returns the table before. The Set and Delete
// methods are cheap, the work is done here: call Commit once for changes that come
// together.
func (b *Builder) Commit() (*Table, Changes) {
	c := commit{Builder: b, next: *b.table, moved: make(map[site]movement), movedHosts: make(map[string][]*matcher), recheck: make(map[*object]struct{}), uncharged: make(map[*object]string)}
	c.limitMatches()
	c.allot()
	for o := range b.dirty {
		c.decideOrKeep(o)
	}
	c.settleHosts()
	c.lookForShadows()
	c.updateProblems()
	// A new map, as clearing one takes time in proportion to the largest size it ever
	// had.
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

// link records which Services an object uses; names is sorted.
func (b *Builder) link(o *object, names []string) {
	if slices.EqualFunc(o.uses, names, func(s *serviceState, name string) bool { return s.name.Name == name }) {
		return
	}
	before := o.uses
	o.uses = make([]*serviceState, len(names))
	for i, name := range names {
		s := b.serviceState(types.NamespacedName{Namespace: o.name.Namespace, Name: name})
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
