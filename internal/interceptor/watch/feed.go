package watch

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

const (
	// backlog is how many changes are queued for the one goroutine that applies them.
	// When the queue is full, the watches wait.
	backlog = 1024
	// pace is the minimum time between two tables: changes that come faster share one.
	// A single change does not wait.
	pace = 5 * time.Millisecond
	// mostAtOnce bounds the changes that a table waits for while they come faster than
	// they are applied. It is more than backlog, so that all changes that are queued at
	// one time are in one table.
	mostAtOnce = 8 * backlog
)

// Unreadable says on an HTTPScaledObject that the interceptor cannot decode it. The proxies serve
// what they served before.
const Unreadable routes.Reason = "Unreadable"

// kind is what a source reads.
type kind int

const (
	httpScaledObjects kind = iota
	services
	endpointSlices
	// Tables are made of the kinds above. The first table waits for those below, too:
	// the address Service and its EndpointSlices, in a namespace that is not watched.
	tableKinds
	addressService = tableKinds
	addressSlices  = tableKinds + 1
	kinds          = tableKinds + 2
)

// change is a message to the feed. The changes of one source arrive in order.
type change struct {
	kind kind
	// pass counts the lists of a source. When a list is complete, every object is
	// deleted that neither the list nor a later event of the watch has named.
	pass uint64
	// listed tells that the list of this pass is complete. There is no object then.
	listed bool
	// refused tells that the API server refuses to list. There is no object
	// then.
	refused bool

	// granted is when the API server granted a watch. There is no object then.
	granted time.Time

	name types.NamespacedName
	// object is nil when it was deleted.
	object any

	// beat, where set, receives a value when the change has got through to the
	// consumers. The other fields are empty then.
	beat chan<- struct{}
}

// feed applies changes to a Builder, and passes the tables to the consumers. It belongs
// to one goroutine.
type feed struct {
	options *Options
	metrics *metrics
	builder *routes.Builder
	// known has, for each object, the pass that named it last.
	known  [kinds]map[types.NamespacedName]uint64
	synced [kinds]bool
	// unreadable are problems that the builder does not know.
	unreadable       map[types.NamespacedName]routes.Problem
	opened, resolved []routes.Problem
	// addresses are those of the address Service; told is what OnAddresses was last
	// called with, nil before the first call.
	addresses addresses
	told      *addresses
	started   bool
	// beat, unless nil, receives a value when all changes so far have got through to
	// the consumers.
	beat chan<- struct{}
	// passes counts how often the feed has passed its changes on to the last consumer.
	passes *atomic.Uint64

	// granted has when the API server last granted each watch, and endpoints the
	// addresses of each EndpointSlice of the address Service.
	granted   [tableKinds]time.Time
	endpoints map[types.NamespacedName][]netip.Addr
	publish   func(*published)
}

// published is what Watch.LastSeen, Watch.ServiceEndpoints and Watch.Limits return.
type published struct {
	at        time.Time
	endpoints []netip.Addr
	matches   int
}

func newFeed(options *Options, m *metrics) *feed {
	f := &feed{
		options: options, metrics: m, builder: routes.NewBuilderOf(options.policy()),
		unreadable: make(map[types.NamespacedName]routes.Problem),
		addresses:  noService,
		passes:     new(atomic.Uint64),
		endpoints:  make(map[types.NamespacedName][]netip.Addr),
		publish:    func(*published) {},
	}
	f.builder.OnPanic(func(kind string, name types.NamespacedName, cause any, stack []byte) {
		options.Log.Error("a panic over one object, which is as it was before; this is an error of the interceptor",
			"kind", kind, "object", name.String(), "panic", cause, "stack", string(stack))
	})
	f.synced[addressService], f.synced[addressSlices] = !options.addressApart(), !options.addressApart()
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
		f.applyQueued(changes)
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

// applyQueued applies the changes that are queued, and at most mostAtOnce of them.
func (f *feed) applyQueued(changes <-chan change) {
	for range mostAtOnce {
		select {
		case c := <-changes:
			f.apply(c)
		default:
			return
		}
	}
}

// answer tells that all changes so far have got through to the consumers.
func (f *feed) answer() {
	f.passes.Add(1)
	f.publish(&published{
		at: slices.MinFunc(f.granted[:], time.Time.Compare), endpoints: slices.Concat(slices.Collect(maps.Values(f.endpoints))...),
		matches: f.builder.MostMatches(),
	})
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
		// Tables do not need the address Service: do not wait for it.
		if c.kind == addressService && !f.synced[c.kind] {
			f.addresses = unknown
		}
		f.synced[c.kind] = f.synced[c.kind] || c.kind >= tableKinds
	case !c.granted.IsZero():
		f.granted[c.kind] = c.granted
	case c.object == nil:
		delete(f.known[c.kind], c.name)
		f.gone(c.kind, c.name)
	default:
		f.known[c.kind][c.name] = c.pass
		f.set(c)
	}
}

// sweep deletes the objects that a list has not named.
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
		if c.kind == endpointSlices {
			f.builder.SetEndpointSlice(o)
		}
		f.setEndpoints(c.name, o)
	}
}

func (f *feed) gone(k kind, name types.NamespacedName) {
	switch k {
	case httpScaledObjects:
		f.readable(name)
		f.builder.DeleteHTTPScaledObject(name)
	case services:
		f.builder.DeleteService(name)
	case addressSlices:
		delete(f.endpoints, name)
	case endpointSlices:
		f.builder.DeleteEndpointSlice(name)
		delete(f.endpoints, name)
	}
	if (k == services || k == addressService) && name == f.options.AddressService {
		f.addresses = noService
	}
}

// quarantine reports a problem with an object that cannot be decoded. The object is
// served as it was before.
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

// commit makes a table and passes it to the consumers, once every kind has been listed.
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
		// The lists took far more memory than what follows: give it back to the
		// operating system.
		debug.FreeOSMemory()
	}
}
