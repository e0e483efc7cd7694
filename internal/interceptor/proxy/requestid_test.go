package proxy

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// An application gets the x-request-id that the client sent, or a UUID of its own for each
// request. The client gets none back.
func TestRequestID(t *testing.T) {
	const uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
	for _, edge := range []bool{false, true} {
		w := newWorld(t, func(s *Settings) { s.Edge = edge })
		w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Join(r.Header[requestIDHeader], ", "))
		}))
		w.object("")
		w.commit()
		long := strings.Repeat("x", 50<<10)
		for name, tt := range map[string]struct {
			sent []string
			want string
		}{
			"none":     {nil, uuid},
			"empty":    {[]string{""}, uuid},
			"one":      {[]string{"mine"}, "^mine$"},
			"two":      {[]string{"mine", "yours"}, "^mine, yours$"},
			"long":     {[]string{long}, "^x{1000}"},
			"no ASCII": {[]string{"\tgrün \""}, `^grün "$`},
		} {
			t.Run(name, func(t *testing.T) {
				w.t = t
				r := w.request(http.MethodGet, "/", nil)
				r.Header[requestIDHeader] = tt.sent
				res, got := w.do(r)
				if !regexp.MustCompile(tt.want).MatchString(got) || tt.sent != nil && len(tt.sent[0]) > 1000 && got != long {
					t.Errorf("at the edge: %t: the application gets %.100q", edge, got)
				}
				if res.Header[requestIDHeader] != nil {
					t.Errorf("the client gets %v", res.Header)
				}
				if _, other := w.get("/"); tt.want == uuid && other == got {
					t.Errorf("two requests have the id %q", got)
				}
			})
		}
	}
}
