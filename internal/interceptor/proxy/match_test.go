package proxy

import (
	"net/http"
	"strings"
	"testing"
)

func TestARequestThatMatchesNoObject(t *testing.T) {
	w := newWorld(t)
	w.proxy.start.end()
	res, _ := w.get("/")
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("before there is a table: %s, want 503 with Retry-After", res.Status)
	}
	w.commit()
	res, body := w.get("/some/path")
	if res.StatusCode != http.StatusNotFound || !strings.Contains(body, `"app.test"`) || !strings.Contains(body, `"/some/path"`) {
		t.Errorf("%s %q, want a 404 that names host and path", res.Status, body)
	}
}
