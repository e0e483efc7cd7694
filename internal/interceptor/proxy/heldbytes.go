package proxy

import "net/http"

// A request that waits is charged the memory that it can take: for itself, its
// header, the part of its body that has come, and the part that the client can send
// before it is read. A Content-Length alone is not charged.
//
// While an HTTP/1.1 body is not read, the server's buffer of the connection holds its
// beginning, and TLS one more record; the rest stays in the kernel and at the client.
// In HTTP/2 the server takes what the flow-control windows allow, in chunks of up to a
// frame: the body is read as it comes, to know how many bytes have come. When that
// reading ends, or if the body must not be read, the window is charged.
const (
	// heldRequest is what each waiting request is charged for its goroutines with
	// their stacks, the server's state, and its connection with the buffers, which
	// carries no other request in HTTP/1.1, and maybe none in HTTP/2. That is 22 KB in
	// HTTP/1.1, 28 KB if a kedify-proxy hands the request over, 36 KB with TLS; in
	// HTTP/2 11 to 16 KB, and alone on its connection 39 KB, or 50 KB with TLS.
	heldRequest = 48 << 10
	arrivedTLS  = 16 << 10
	chunkHTTP2  = 16 << 10
)

// headerField is about how many bytes a map takes for a field, besides name and value.
const headerField = 64

// heldBytes returns how many bytes a request can take in memory when it begins to
// wait, and how many more its body may fill of its connection's flow-control window.
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
	case r.ProtoMajor == 1: // the body is in the connection's buffer
	case !readableAhead(r):
		return bytes + chunkHTTP2, ofBody(r, streamWindow)
	}
	if ahead, ok := r.Body.(*bodyAhead); ok { // read during an earlier wait
		bytes += ahead.kept()
	}
	return bytes, 0
}

// ofBody returns bytes, or the Content-Length of the request if it is known and less.
func ofBody(r *http.Request, bytes int64) int64 {
	if r.ContentLength < 0 {
		return bytes
	}
	return min(bytes, r.ContentLength)
}
