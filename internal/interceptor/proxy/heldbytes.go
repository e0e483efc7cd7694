package proxy

import "net/http"

// A request that waits is charged the memory that it can take: for itself, its
// header, the part of its body that has come, and the part that the client can send
// before it is read. Its Content-Length counts for nothing.
//
// Of an HTTP/1.1 body that is not read, the server's buffer of the connection holds
// the beginning, and TLS one more record; the rest stays in the kernel and at the
// client. In HTTP/2 the server takes what the flow-control windows allow, in chunks of
// up to a frame: the body is read as it comes, to know how much that is. Once that
// reading ends, or where the body may not be read, the window is charged.
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
