package proxy

import (
	"io"
	"net/http"
	"testing"
)

// An answer without a Content-Type gets none: a guess could have a browser run a text.
func TestNoContentTypeIsInvented(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	}))
	w.object("")
	w.commit()
	for name, client := range map[string]*http.Client{"HTTP/1.1": w.client, "HTTP/2": h2cClient(t)} {
		w.client = client
		if res, body := w.get("/"); body != "<html>" || res.Header["Content-Type"] != nil {
			t.Errorf("%s: %q with Content-Type %q, want none", name, body, res.Header["Content-Type"])
		}
	}
}
