package proxy

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// What a handler finds in the record once the request is over.
func TestHandlersFillOneRecord(t *testing.T) {
	type seen struct {
		Object           types.NamespacedName
		Service          string
		Endpoint         string
		Code             int
		Bytes            int64
		Held, TriedAgain bool
		Upgraded         bool
		CutBy            string
		Handover         bool
	}
	w := newWorld(t)
	records := make(chan seen, 1)
	w.proxy.handler = chain([]func(http.Handler) http.Handler{
		func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					rec := recordOf(r)
					if rec.code != 0 && rec.code != clientClosed && rec.headerAt.Before(rec.begun) {
						t.Errorf("the header was sent at %v, and the request began at %v", rec.headerAt, rec.begun)
					}
					records <- seen{
						rec.object(), rec.service(), rec.endpoint, rec.finalCode(), rec.bytes,
						rec.held, rec.triedAgain, rec.upgraded, rec.cutBy, rec.handover != nil,
					}
				}()
				next.ServeHTTP(w, r)
			})
		},
	}, w.proxy.handler)
	address := w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "hello")
	})
	silent, closes := w.silent(always)
	app := types.NamespacedName{Namespace: "demo", Name: "app"}
	tests := []struct {
		name, path, host, endpoint string
		want                       seen
	}{
		{"served", "/", "app.test", address, seen{Object: app, Service: "stable", Endpoint: address, Code: 200, Bytes: 5}},
		{"unmatched", "/", "other.test", address, seen{Code: 404, Bytes: 58}},
		{"held", "/", "app.test", "", seen{Object: app, Service: "stable", Endpoint: address, Code: 200, Bytes: 5, Held: true}},
		{"cut short", "/short", "app.test", address, seen{Object: app, Service: "stable", Endpoint: address, Code: 200, Bytes: 5, CutBy: byApplication}},
		{"tried again", "/", "app.test", closes, seen{Object: app, Service: "stable", Endpoint: closes, Code: 502, Bytes: 59, TriedAgain: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			w.object("")
			w.service("stable", "")
			if tt.endpoint != "" {
				w.service("stable", "", tt.endpoint)
			}
			w.commit()
			r := w.request(http.MethodGet, tt.path, nil)
			r.Host = tt.host
			answer := w.inBackground(w.client, r)
			if tt.endpoint == "" {
				eventually(t, "the request waits", func() bool { return w.held() == 1 })
				w.service("stable", "", address)
				w.commit()
			}
			<-answer
			if diff := cmp.Diff(tt.want, <-records); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
		})
	}
	if len(silent.took()) != 2 {
		t.Error("the application that closes its connections was not asked twice")
	}
}
