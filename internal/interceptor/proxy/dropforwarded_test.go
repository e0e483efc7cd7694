package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// At the edge, a client cannot say who it is, not even with underscores, which many
// applications take for hyphens.
func TestClientsAtTheEdgeDoNotSayWhoTheyAre(t *testing.T) {
	sent := http.Header{
		"Forwarded": {"for=1"}, "X-Forwarded-For": {"1"}, "X-Forwarded-Prefix": {"/a"}, "X-Real-Ip": {"1"},
		"X_forwarded_for": {"1"}, "X-Forwarded_host": {"a"}, "X_real_ip": {"1"},
		"Forwarded-For": {"kept"}, "X-Other": {"kept"},
	}
	p := New(DefaultSettings(), nil)
	p.settings.Edge = true
	var got http.Header
	last := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for _, from := range []*handover{nil, {}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = sent.Clone()
		w, r := withRecord(httptest.NewRecorder(), r)
		recordOf(r).handover = from
		p.dropForwarded(last).ServeHTTP(w, r)
		want := sent
		if from == nil {
			want = http.Header{"Forwarded-For": {"kept"}, "X-Other": {"kept"}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("handed over %v (-want +got):\n%s", from != nil, diff)
		}
	}
}
