package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// If a request's body is not read to its end, the answer says Connection: close:
// otherwise the client's next request would be lost. If it is read, the connection
// stays open.
func TestAnswerBeforeTheEndOfABody(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		response := http.NewResponseController(w)
		_ = response.EnableFullDuplex() // or the server first reads the rest of a short body
		if r.URL.Path == "/read" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		w.Header().Set("Content-Length", "2")
		_, _ = io.WriteString(w, "ok")
		_ = response.Flush()
	}))
	w.object("")
	w.commit()
	const head = " HTTP/1.1\r\nHost: app.test\r\n"
	for _, tt := range []struct {
		name, request string
		closes        bool
	}{
		{"with a length, none of it sent", "POST /" + head + "Content-Length: 1048576\r\n\r\n", true},
		{"with a length, a part of it sent", "POST /" + head + "Content-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1000), true},
		{"in chunks", "POST /" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true},
		{"with a length, read", "POST /read" + head + "Content-Length: 5\r\n\r\nhello", false},
		{"in chunks, read", "POST /read" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false},
		{"none", "POST /" + head + "Content-Length: 0\r\n\r\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, w.address)
			c.send(tt.request)
			if res, body := c.answer(http.MethodPost); body != "ok" || res.Close != tt.closes {
				t.Errorf("answered %q, and that the connection is closed: %v; expected ok and %v", body, res.Close, tt.closes)
			}
		})
	}
}
