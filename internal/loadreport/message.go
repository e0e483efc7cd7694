// Package loadreport is the format in which an interceptor reports the requests of each
// HTTPScaledObject to scalers: a stream of JSON objects, one a line, that a GET of Path at
// its admin port answers and does not end.
package loadreport

import "time"

const (
	// Path is where an interceptor serves the stream.
	Path = "/loadreport"
	// Interval is the longest time between two messages. A message is sent at once when
	// the first request of an HTTPScaledObject is held.
	Interval = time.Second
)

// Message is a line of the stream. The first one has all that is known: a Source or object
// that it lacks is gone. Each later one has the Sources that reported since, or ended; the
// interceptor itself is in each.
type Message struct {
	Sources []Source `json:"sources,omitempty"`
}

// Source is a proxy that counts requests: the interceptor itself, or a kedify-proxy by one
// load reporting stream to it.
type Source struct {
	// ID is unique among all processes and streams: a kedify-proxy that connects again is
	// another Source, whose Requests begin at 0.
	ID string `json:"id"`
	// Address is the IP address of a kedify-proxy, as of its connection, which may be that
	// of a gateway. It is empty for the interceptor itself.
	Address string `json:"address,omitempty"`
	// Pod is the pod that a kedify-proxy says it is, as namespace/name; empty for none.
	Pod string `json:"pod,omitempty"`
	// WithoutLoadReports marks a kedify-proxy that takes its configuration from this
	// interceptor, and has opened no load reporting stream to it. It may have one to
	// another interceptor. If it has none, its bootstrap lacks load_stats_config.
	WithoutLoadReports bool `json:"withoutLoadReports,omitempty"`
	// Ended marks a Source whose stream has ended. It does not come again.
	Ended bool `json:"ended,omitempty"`
	// Objects are the HTTPScaledObjects whose figures have changed since the last message
	// with this Source. They are to be read in their order: an object that is gone may come
	// again in the same message.
	Objects []Object `json:"objects,omitempty"`
}

// Object has the figures of an HTTPScaledObject, of all Services of its split together.
type Object struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Requests counts the requests that have arrived since the Source began, each once. It
	// falls when one is refused by a limit, as such a request is not to count.
	Requests int64 `json:"requests"`
	// Active is the number of requests that are under way or held now.
	Active int64 `json:"active,omitempty"`
	// Held is the number of Active requests that wait for an endpoint.
	Held int64 `json:"held,omitempty"`
	// Gone tells that the object is deleted, and its counters with it. If it is made again,
	// Requests begin at 0.
	Gone bool `json:"gone,omitempty"`
}
