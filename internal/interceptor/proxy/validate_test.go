package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// HTTP/2 can carry a target with a space, HTTP/1.1 cannot.
func TestTargetWithASpaceIsRefused(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.object("")
	w.commit()
	r := w.request(http.MethodGet, "/", nil)
	r.URL.Opaque = "/a HTTP/1.1"
	res, err := h2cClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	// The application of this test would say 400 as well.
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "request target") {
		t.Errorf("%s %q (%v), want 400 by the proxy", res.Status, body, err)
	}
}

// Go's HTTP/2 server follows the first Content-Length and hands over all that were
// sent. The request is made by hand, as Go's client never sends two.
func TestTwoLengthsInHTTP2AreRefused(t *testing.T) {
	w := newWorld(t)
	var arrived atomic.Int32
	w.service("stable", "", w.app(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	w.object("")
	w.commit()
	for _, tc := range []struct {
		lengths []string
		status  int
	}{
		{[]string{"0", "44"}, http.StatusBadRequest},
		{[]string{"44", "0"}, http.StatusBadRequest},
		{[]string{"0", "0"}, http.StatusOK},
		{[]string{"0"}, http.StatusOK},
	} {
		before := arrived.Load()
		r := httptest.NewRequest(http.MethodPost, "http://app.test/", nil)
		r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
		r.Header["Content-Length"] = tc.lengths
		answer := httptest.NewRecorder()
		w.proxy.ServeHTTP(answer, r)
		if answer.Code != tc.status {
			t.Errorf("Content-Length %q: %d, want %d", tc.lengths, answer.Code, tc.status)
		}
		if got := arrived.Load() - before; (got == 1) != (tc.status == http.StatusOK) {
			t.Errorf("Content-Length %q: %d requests have arrived", tc.lengths, got)
		}
	}
}
