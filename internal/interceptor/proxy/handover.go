package proxy

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/certified"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// readHandover records what the connection of a kedify-proxy says of its requests, and
// whether Envoy has tried the request before.
func (p *Proxy) readHandover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if read, ok := r.Context().Value(handoverKey{}).(func() *handover); ok {
			rec := recordOf(r)
			rec.handover = read()
			if again := r.Header[routes.SecondTryHeader]; len(again) > 0 {
				rec.secondTry, rec.tooLate = true, again[0] == "true"
				delete(r.Header, routes.SecondTryHeader)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// handover is what the PROXY protocol header and the certificate of a connection say of
// its requests.
type handover struct {
	object  *types.NamespacedName // nil for none
	service string                // that Envoy chose, "" where the header does not name it
	// namespaces are those to whose objects Envoy may send requests; none stands for all.
	namespaces certified.Namespaces
	overTLS    bool
	ends       time.Time // of the connection's maximum age; zero for none
}

// over tells whether the connection is past its maximum age, and is to be closed after
// the answer. Connections of clients, which have no handover, have no maximum.
func (h *handover) over(now time.Time) bool {
	return h != nil && !h.ends.IsZero() && now.After(h.ends)
}

func (c *fallbackConn) handover() *handover {
	h := new(handover)
	if header := c.ProxyHeader(); header != nil {
		h = handoverOf(header)
	}
	h.namespaces, h.overTLS = namesOf(c.Raw())
	if h.overTLS && c.maxAge > 0 {
		h.ends = time.Now().Add(c.maxAge + time.Duration(rand.Int64N(int64(c.maxAge)/3+1)))
	}
	return h
}

// handoverOf returns the object and the service that a header names.
func handoverOf(header *proxyproto.Header) *handover {
	h := new(handover)
	records, err := header.TLVs()
	if err != nil {
		return h
	}
	for _, record := range records {
		switch record.Type {
		case routes.FallbackTLV:
			if name, ok := parseObject(string(record.Value)); ok && h.object == nil {
				h.object = &name
			}
		case routes.FallbackServiceTLV:
			h.service = string(record.Value)
		}
	}
	return h
}

type handoverKey struct{}

// withHandover is the http.Server.ConnContext of the fallback listener: it gives the
// requests of a connection its handover, and what withLengthWatch does.
func withHandover(ctx context.Context, c net.Conn) context.Context {
	ctx = withLengthWatch(ctx, c)
	if watch, ok := c.(*lengthWatch); ok {
		if from, ok := watch.Conn.(*fallbackConn); ok {
			ctx = context.WithValue(ctx, handoverKey{}, sync.OnceValue(from.handover))
		}
	}
	return ctx
}
