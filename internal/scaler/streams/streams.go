// Package streams reads the load reports of interceptors, one stream from each.
package streams

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

const (
	// silence is how long a message may take to come after the one before was taken in: a
	// few of loadreport.Interval.
	silence = 5 * loadreport.Interval
	// longestMessage has room for 100 kedify-proxies that all report 5,000 objects.
	longestMessage = 64 << 20
)

// backoff is the time between two tries to reach an interceptor.
var backoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 2 * time.Second}

// Figures takes what interceptors report, see package figures. Interceptors are named by the
// address of their admin port, host:port. Disconnected is called after the last Apply of a
// stream, if there was one.
type Figures interface {
	Apply(interceptor string, m loadreport.Message)
	Disconnected(interceptor string)
}

// Streams has a stream from each of some interceptors, and opens it again when it ends, or
// is silent.
type Streams struct {
	ctx     context.Context
	figures Figures
	log     *slog.Logger
	client  *http.Client
	silence time.Duration
	longest int

	mu   sync.Mutex
	open map[string]*stream
}

// New returns Streams without interceptors. They end with ctx.
func New(ctx context.Context, figures Figures, log *slog.Logger) *Streams {
	return &Streams{
		ctx: ctx, figures: figures, log: log, silence: silence, longest: longestMessage,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:        (&net.Dialer{Timeout: backoff.Cap}).DialContext,
				DisableKeepAlives:  true,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		open: make(map[string]*stream),
	}
}

// A stream is that of one interceptor, and those that take its place.
type stream struct {
	*Streams
	address string
	stop    context.CancelFunc
	stopped chan struct{}
	tried   atomic.Bool
}

// Set sets the interceptors. When it returns, all streams from others have ended.
func (s *Streams) Set(addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.open
	s.open = make(map[string]*stream, len(addresses))
	for _, address := range addresses {
		if s.open[address] != nil {
			continue
		}
		if of := left[address]; of != nil {
			s.open[address] = of
			delete(left, address)
			continue
		}
		ctx, stop := context.WithCancel(s.ctx)
		of := &stream{Streams: s, address: address, stop: stop, stopped: make(chan struct{})}
		s.open[address] = of
		go of.run(ctx)
	}
	for _, of := range left {
		of.stop()
	}
	for _, of := range left {
		<-of.stopped
	}
}

// Tried tells whether each interceptor has sent a message, or failed to once.
func (s *Streams) Tried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.open {
		if !of.tried.Load() {
			return false
		}
	}
	return true
}
