package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func TestSecondTriesOfEnvoy(t *testing.T) {
	for _, tt := range []struct {
		again      string
		silent     int
		sent, code int
	}{
		{again: "", silent: 1, sent: 2, code: http.StatusOK}, // Envoy's first try
		{again: "false", silent: 0, sent: 1, code: http.StatusOK},
		{again: "false", silent: 1, sent: 1, code: http.StatusBadGateway},
		{again: "true", silent: 0, sent: 0, code: http.StatusGatewayTimeout},
	} {
		t.Run(fmt.Sprintf("%q, silent %d times", tt.again, tt.silent), func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.ResponseHeader = patience })
			app, address := w.silent(tt.silent)
			w.service("stable", "", address)
			w.object("")
			w.commit()
			w.client = w.fromEnvoy(w.serveFallback(), "demo/app", false)
			r := w.request(http.MethodGet, "/", nil)
			if tt.again != "" {
				r.Header[routes.SecondTryHeader] = []string{tt.again}
			}
			res, body := w.do(r)
			taken := app.took()
			if res.StatusCode != tt.code || len(taken) != tt.sent {
				t.Errorf("answered %s %q, and the application got it %d times; want %d and %d times", res.Status, body, len(taken), tt.code, tt.sent)
			}
			for _, request := range taken {
				if strings.Contains(strings.ToLower(request), strings.ToLower(routes.SecondTryHeader)) {
					t.Errorf("the application got %q", request)
				}
			}
		})
	}
}
