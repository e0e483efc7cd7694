package proxy

import "net/http"

// A request that waits is charged the memory that it and its client can take until it
// is sent on. The charge does not change while it waits.
const (
	// heldRequest is for its goroutines with their stacks, the server's state, and its
	// connection with the buffers, which carries no other request in HTTP/1.1, and maybe
	// none in HTTP/2. That is 27 KB in HTTP/1.1; in HTTP/2 11 KB, and alone on its
	// connection 40 KB.
	heldRequest = 48 << 10
	// heldTLS is for the state of TLS in HTTP/1.1, and for a record that has arrived. In
	// HTTP/2 many requests share that.
	heldTLS = 16 << 10
	// headerField is about how many bytes a map with its strings takes for a field, at most,
	// besides those of name and value.
	headerField = 112
)

// heldBytes returns how many bytes a waiting request is charged. In HTTP/1.1 those are
// for a body that is read ahead: of another one, the connection's buffer has the
// beginning, and the rest stays in the kernel and at the client. In HTTP/2 the client may
// fill the window of its stream before the body is read.
func heldBytes(r *http.Request, overTLS bool) int64 {
	bytes := heldRequest + int64(len(r.RequestURI)+len(r.Host))
	for name, values := range r.Header {
		for _, value := range values {
			bytes += int64(len(name) + len(value) + headerField)
		}
	}
	switch {
	case r.ProtoMajor >= 2 && r.ContentLength != 0:
		bytes += streamWindow
	case readableAhead(r):
		bytes += r.ContentLength
	}
	if r.ProtoMajor == 1 && overTLS {
		bytes += heldTLS
	}
	return bytes
}
