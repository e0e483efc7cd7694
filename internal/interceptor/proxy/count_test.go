package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// A panic of a handler is counted as the 500 that recover answers.
func TestAPanicIsRecordedAs500(t *testing.T) {
	w := newWorld(t)
	w.commit()
	w.proxy.handler = chain([]func(http.Handler) http.Handler{w.proxy.recover, w.proxy.count},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }))
	if res, body := w.get("/"); res.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "the interceptor failed") {
		t.Errorf("%s %q, want 500", res.Status, body)
	}
	if got := value(t, w.proxy, "interceptor_requests_total", "", "", "", "500"); got != 1 {
		t.Errorf("%v requests counted as 500, want 1", got)
	}
}
