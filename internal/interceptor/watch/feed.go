package watch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

const (
	// backlog is how many changes wait for the one goroutine that applies
	// them before the watches wait themselves.
	backlog = 1024
	// pace is the least time between two tables: changes that come faster are
	// taken together. One that comes alone does not wait.
	pace = 5 * time.Millisecond
	// mostAtOnce is how many changes a table waits for that come faster than they
	// are applied. More than backlog, so that what waits at a time is in one table.
	mostAtOnce = 8 * backlog
)

// Unreadable is the reason of the problem of an HTTPScaledObject that cannot be
// decoded. The routes package never sees such an object.
const Unreadable routes.Reason = "Unreadable"

// kind is what a source reads.
type kind int

const (
	httpScaledObjects kind = iota
	services
	endpointSlices
	// tables are made of the kinds above; the rest only informs, and the first
	// table waits for it too.
	tableKinds
	addressService = tableKinds
	kinds          = tableKinds + 1
)

// change is something to tell the feed, in the order in which it came from its
// source.
type change struct {
	kind kind
	// pass counts the lists of a source. What the newest has not named, and no
	// later event of the watch, is gone when the list is over.
	pass uint64
	// listed tells that the list of this pass is over. There is no object then.
	listed bool
	// refused tells that the API server refuses to list. There is no object
	// then.
	refused bool

	name types.NamespacedName
	// object is nil when it is gone.
	object any

	// beat is told when the change has come through to the consumers. There is
	// nothing else in the change then.
	beat chan<- struct{}
}

// feed tells a Builder what comes, and consumers what came of it. It belongs to
// one goroutine.
type feed struct {
	options *Options
	metrics *metrics
	builder *routes.Builder
	// known are the passes that last named an object.
	known  [kinds]map[types.NamespacedName]uint64
	synced [kinds]bool
	// unreadable are problems that the builder does not know.
	unreadable       map[types.NamespacedName]routes.Problem
	opened, resolved []routes.Problem
	// addresses are those of the address Service, and told what OnAddresses was
	// called with, nil before it was.
	addresses addresses
	told      *addresses
	started   bool
	// beat is to be told when all that has come is through; nil for nobody.
	beat chan<- struct{}
	// passes counts how often changes went all of their way.
	passes *atomic.Uint64
}

func newFeed(options *Options, m *metrics) *feed {
	policy := options.Policy
	if policy == (routes.Policy{}) {
		policy = routes.DefaultPolicy()
	}
	f := &feed{
		options: options, metrics: m, builder: routes.NewBuilderOf(policy),
		unreadable: make(map[types.NamespacedName]routes.Problem),
		addresses:  noService,
		passes:     new(atomic.Uint64),
	}
	f.builder.OnPanic(func(kind string, name types.NamespacedName, cause any, stack []byte) {
		options.Log.Error("a panic over one object, which is as it was before; this is an error of the interceptor",
			"kind", kind, "object", name.String(), "panic", cause, "stack", string(stack))
	})
	f.synced[addressService] = !options.addressApart()
	for k := range f.known {
		f.known[k] = make(map[types.NamespacedName]uint64)
	}
	return f
}

func (f *feed) run(ctx context.Context, changes <-chan change) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-changes:
			f.apply(c)
		}
		f.rest(changes)
		f.commit()
		f.answer()
		// Whatever comes meanwhile is in the next table.
		select {
		case <-ctx.Done():
			return
		case <-time.After(pace):
		}
	}
}

// rest applies what has come already, and no more of what comes meanwhile than a
// table can wait for.
func (f *feed) rest(changes <-chan change) {
	for range mostAtOnce {
		select {
		case c := <-changes:
			f.apply(c)
		default:
			return
		}
	}
}

// answer tells that what has come is through.
func (f *feed) answer() {
	f.passes.Add(1)
	if f.beat != nil {
		f.beat <- struct{}{} // there is room for the one beat that is under way
		f.beat = nil
	}
}

func (f *feed) apply(c change) {
	switch {
	case c.beat != nil:
		f.beat = c.beat
	case c.listed:
		f.sweep(c.kind, c.pass)
		if c.kind == addressService && len(f.known[c.kind]) == 0 {
			f.addresses = noService // and not unknown any more
		}
		f.synced[c.kind] = true
	case c.refused:
		// Of all that a table is made of, this can be done without.
		if c.kind == addressService && !f.synced[c.kind] {
			f.addresses, f.synced[c.kind] = unknown, true
		}
	case c.object == nil:
		delete(f.known[c.kind], c.name)
		f.gone(c.kind, c.name)
	default:
		f.known[c.kind][c.name] = c.pass
		f.set(c)
	}
}

// sweep deletes what a list has not named.
func (f *feed) sweep(k kind, pass uint64) {
	for name, named := range f.known[k] {
		if named != pass {
			delete(f.known[k], name)
			f.gone(k, name)
		}
	}
}

func (f *feed) set(c change) {
	switch o := c.object.(type) {
	case *httpv1alpha1.HTTPScaledObject:
		f.readable(c.name)
		f.builder.SetHTTPScaledObject(o)
	case *unreadable:
		f.quarantine(c.name, o)
	case *corev1.Service:
		if c.name == f.options.AddressService {
			f.addresses = addressesOf(o, f.options.AddressPort)
		}
		if c.kind == services {
			f.builder.SetService(o)
		}
	case *discoveryv1.EndpointSlice:
		f.builder.SetEndpointSlice(o)
	}
}

func (f *feed) gone(k kind, name types.NamespacedName) {
	switch k {
	case httpScaledObjects:
		f.readable(name)
		f.builder.DeleteHTTPScaledObject(name)
	case services:
		f.builder.DeleteService(name)
	case endpointSlices:
		f.builder.DeleteEndpointSlice(name)
	}
	if (k == services || k == addressService) && name == f.options.AddressService {
		f.addresses = noService
	}
}

// quarantine leaves an object as it was last served.
func (f *feed) quarantine(name types.NamespacedName, o *unreadable) {
	p := routes.Problem{
		Object: name, UID: o.uid, Reason: Unreadable,
		Message: fmt.Sprintf("the object cannot be decoded: %v; it is served as it was before, or not at all", o.err),
	}
	if f.unreadable[name] == p {
		return
	}
	f.readable(name)
	f.unreadable[name] = p
	f.opened = append(f.opened, p)
}

func (f *feed) readable(name types.NamespacedName) {
	if p, ok := f.unreadable[name]; ok {
		delete(f.unreadable, name)
		f.resolved = append(f.resolved, p)
	}
}

// commit hands on what came of the changes, once everything has been read.
func (f *feed) commit() {
	for _, synced := range f.synced {
		if !synced {
			return
		}
	}
	f.tellAddresses()
	table, changes := f.builder.Commit()
	changes.Opened = append(changes.Opened, f.opened...)
	changes.Resolved = append(changes.Resolved, f.resolved...)
	f.opened, f.resolved = nil, nil
	f.metrics.unreadable.Set(float64(len(f.unreadable)))
	if f.started && changes.Empty() && f.beat == nil {
		return
	}
	for _, c := range f.options.Consumers {
		c.Update(table, changes)
	}
	if !f.started {
		f.started = true
		f.options.Log.Info("routes read", "routes", table.Len(), "problems", len(table.Problems())+len(f.unreadable))
		// The lists were far larger than what follows: what they took is
		// given back.
		debug.FreeOSMemory()
	}
}
