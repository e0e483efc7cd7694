package proxy

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// Proxy is the http.Handler that sends each request to a backend of its route.
// It is a prometheus.Collector too.
type Proxy struct {
	settings   Settings
	log        *slog.Logger
	handler    http.Handler // the handlers, see handlers
	table      atomic.Pointer[routes.Table]
	synced     atomic.Bool
	draining   atomic.Bool
	cutting    atomic.Bool // the time of a shutdown is over: it cuts what is left
	withdrawn  atomic.Bool
	start      *start
	registry   registry
	waiting    *waitingRoom
	transports transports
	metrics    *metrics
	accessLog  *accessLog // nil for none
	tunnels    tunnels
	memory     memory
	limited    limitedServices
	underWay   underWay
	loads      *loads.Ledger
	// clients are the connections to the ports for clients, and fallbackConnections
	// those to the fallback port.
	clients, fallbackConnections *connections
	boundedMu                    sync.Mutex
	bounded                      []*BoundedPort
}

// New makes a Proxy without a table: until SetTable is called, a Server accepts no
// connection for 10 s, and after that answers each request 503.
func New(settings Settings, log *slog.Logger) *Proxy {
	p := &Proxy{
		settings:   settings,
		log:        log,
		registry:   registry{byName: make(map[types.NamespacedName]*served)},
		transports: newTransports(&settings),
		metrics:    newMetrics(),
		waiting:    newWaitingRoom(&settings),
		start:      newStart(),
		underWay:   underWay{all: newShare(nil)},
	}
	p.loads = loads.New(p.exists)
	p.clients = p.newConnections("proxy")
	p.fallbackConnections = p.newConnections("fallback")
	p.accessLog = newAccessLog(settings.AccessLog, p.metrics.accessLogDropped)
	p.handler = chain(p.handlers(), http.HandlerFunc(p.forward))
	p.table.Store(routes.NewBuilder().Table())
	return p
}

// SetTable has requests routed by a table from now on. Requests under way are not
// affected; requests that wait for an endpoint go on if the table has one. The call is
// cheap, whatever the size of the table.
func (p *Proxy) SetTable(table *routes.Table) {
	before := p.table.Swap(table)
	p.synced.Store(true)
	p.start.end()
	p.waiting.wake(before, table)
}

// Table returns the table in force; an empty one before the first SetTable.
func (p *Proxy) Table() *routes.Table { return p.table.Load() }

// Loads returns the ledger of the requests of each object, which has those of the Proxy.
func (p *Proxy) Loads() *loads.Ledger { return p.loads }

// exists tells whether there is an HTTPScaledObject. One that cannot be served here may have
// requests all the same: another interceptor knows its last good form, and kedify-proxies
// have that from there.
func (p *Proxy) exists(object types.NamespacedName) bool {
	table := p.Table()
	return table.Route(object) != nil || len(table.ProblemsOf(object)) > 0
}

// Synced tells whether SetTable was called.
func (p *Proxy) Synced() bool { return p.synced.Load() }

// Ready tells whether to send requests here: there is a table, no drain and no withdrawal.
func (p *Proxy) Ready() bool { return p.synced.Load() && !p.leaves() }

// leaves tells whether clients are to go to another interceptor.
func (p *Proxy) leaves() bool { return p.draining.Load() || p.withdrawn.Load() }

// SetWithdrawn begins or ends a withdrawal in favour of another interceptor: Ready returns
// false, and clients close their connections after the next answer. Requests are still
// served.
func (p *Proxy) SetWithdrawn(withdrawn bool) { p.withdrawn.Store(withdrawn) }

// Drain makes Ready return false, and has clients close their connections after the
// next answer. New requests are still served, as it takes a while until no more are
// sent here. Server.Shutdown is to follow.
func (p *Proxy) Drain() {
	p.draining.Store(true)
	p.start.end()
}
