package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// buffers are for copying bodies.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// statusInRange tells whether the server can answer with a status. Informational
// ones are not answers.
func statusInRange(status int) bool { return status >= 200 && status <= 999 }

// answer sends the application's answer to the client. It panics with
// http.ErrAbortHandler when the answer breaks off: the client must not take a part
// for the whole.
func (x *exchange) answer(res *http.Response) {
	h := x.w.Header()
	copyEndToEnd(h, res.Header)
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // or the server guesses one
	}
	if x.in.ProtoMajor == 1 && x.body != nil && !x.body.over.Load() {
		// As the request's body was not read to its end, the server closes the
		// connection after this answer, and does not say so: the client's next request
		// on it would be lost.
		h["Connection"] = closing
	}
	announced := len(res.Trailer)
	if announced > 0 {
		h["Trailer"] = announce(res.Trailer)
	}
	x.w.WriteHeader(res.StatusCode)
	err := x.copyBody(res)
	// Now and not deferred: closing the body makes the trailers known.
	if closed := res.Body.Close(); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		x.record.cutBy = x.whoCut()
		x.proxy.log.Debug("an answer ended early", "by", x.record.cutBy, "endpoint", x.record.endpoint, "error", err)
		panic(http.ErrAbortHandler)
	}
	if len(res.Trailer) == 0 {
		return
	}
	// A body that was not flushed would get a Content-Length now, and no trailers.
	_ = http.NewResponseController(x.w).Flush()
	prefix := ""
	if len(res.Trailer) != announced {
		prefix = http.TrailerPrefix // there are some that were not announced
	}
	for name, values := range res.Trailer {
		h[prefix+name] = values
	}
}

// Who ends an answer before it is whole.
const (
	byApplication = "application"
	byClient      = "client"   // it left, took nothing for too long, or broke off its request
	byShutdown    = "shutdown" // its time was over
)

func (x *exchange) whoCut() string {
	switch {
	case x.in.Context().Err() == nil && !x.bodyBroken(): // the server ends the context also when it cannot send
		return byApplication
	case x.proxy.cutting.Load():
		return byShutdown
	default:
		return byClient
	}
}

// copyBody copies the body as it arrives. It flushes each part, except the last one,
// which the server flushes after the handler, and a full buffer, as more follows.
func (x *exchange) copyBody(res *http.Response) error {
	if res.Body == http.NoBody || x.in.Method == http.MethodHead {
		return nil
	}
	rest := res.ContentLength // -1 when it is not known
	control := http.NewResponseController(x.w)
	if rest < 0 {
		if err := control.Flush(); err != nil {
			return err
		}
	}
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		n, err := res.Body.Read(buffer[:])
		if n > 0 {
			if rest >= 0 {
				rest -= int64(n)
			}
			if _, err := x.w.Write(buffer[:n]); err != nil {
				return err
			}
			if rest != 0 && n < len(buffer) && err == nil {
				if err := control.Flush(); err != nil {
					return err
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF) && rest > 0:
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
