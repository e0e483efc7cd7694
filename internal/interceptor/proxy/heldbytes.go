package proxy

import "net/http"

// What a request can have in memory while it waits is what it takes up of the
// waiting room: itself, its header, what of its body is here, and what of it can come
// without anybody reading it. How long it says that its body is counts for nothing.
//
// Of a body in HTTP/1.1 that nobody reads, the server's buffer of the connection
// holds a beginning, and TLS a record more; the rest stays outside, with the client
// and in the kernel. In HTTP/2 the server takes what the windows allow, in chunks of
// up to a frame: to know how much that is, the body is read as it comes. Where the
// beginning of it is here, or it is not to be read, the window is charged.
const (
	// heldRequest is what any request takes that waits: its goroutines with their
	// stacks, what the server keeps of it, and its connection, with the buffers for
	// it, which carries no other in HTTP/1.1, and need not in HTTP/2. That is 22 KB in
	// HTTP/1.1, 28 KB for one that a kedify-proxy hands over and 36 KB with TLS; in
	// HTTP/2 11 to 16 KB, and 39 KB alone on its connection, 50 KB with TLS.
	heldRequest = 48 << 10
	arrivedTLS  = 16 << 10
	chunkHTTP2  = 16 << 10
)

// headerField is about what a map takes for a field, beside its name and value.
const headerField = 64

// heldBytes returns how many bytes a request can have in memory when it begins to
// wait, by TLS or without, and how many more it may fill of its connection's window.
func heldBytes(r *http.Request, overTLS bool) (bytes, window int64) {
	bytes = heldRequest + int64(len(r.RequestURI)+len(r.Host))
	for name, values := range r.Header {
		for _, value := range values {
			bytes += int64(len(name) + len(value) + headerField)
		}
	}
	if r.ContentLength == 0 {
		return bytes, 0
	}
	switch {
	case r.ProtoMajor == 1 && overTLS:
		bytes += ofBody(r, arrivedTLS)
	case r.ProtoMajor == 1: // it is in the connection's buffer
	case !readableAhead(r):
		return bytes + chunkHTTP2, ofBody(r, streamWindow)
	}
	if ahead, ok := r.Body.(*bodyAhead); ok { // of an earlier wait
		bytes += ahead.kept()
	}
	return bytes, 0
}

// ofBody returns how much of so many bytes the body of a request can take.
func ofBody(r *http.Request, bytes int64) int64 {
	if r.ContentLength < 0 {
		return bytes
	}
	return min(bytes, r.ContentLength)
}
