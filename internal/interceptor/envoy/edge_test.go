package envoy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// With --edge both proxies remove forwarding headers of clients, such as X-Forwarded-For,
// before they choose the object and before the application sees them.
func TestAtTheEdgeBothProxiesDropWhatClientsSayOfThemselves(t *testing.T) {
	w := newWorld(t)
	w.service("app", routes.HTTP1, serve(t, http.HandlerFunc(echo)))
	w.service("admin", routes.HTTP1, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a header that clients may not say has chosen the object")
	})))
	w.object("app", "app", "", nil)
	w.object("admin", "admin", "", func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.Hosts = []string{"app.example.com"}
		o.Spec.Headers = []httpv1alpha1.Header{{Name: "X-Forwarded-Tenant"}, {Name: "X-Real-Ip"}, {Name: "Forwarded"}}
	})
	table := w.table()
	settings := proxy.DefaultSettings()
	settings.Edge = true
	request := get + "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Host: before.example.com\r\nX-Forwarded-Proto: https\r\n" +
		"x-forwarded-PORT: 1\r\nX-Forwarded-Port: 2\r\nX-Forwarded-Prefix: /p\r\nX-Forwarded-Server: s\r\nX-Forwarded-Ssl: on\r\nX-Forwarded-Client-Cert: Hash=1\r\n" +
		"X-Forwarded-Tenant: t\r\nX-Real-Ip: 203.0.113.7\r\nForwarded: for=203.0.113.7\r\n" +
		"x_forwarded_for: 203.0.113.7\r\nX-Forwarded_Host: before.example.com\r\nX_FORWARDED-Proto: https\r\nX-Real_IP: 203.0.113.7\r\n" +
		"X-Forwardedness: stays\r\nNot-X-Forwarded-For: stays\r\n\r\n"
	for kind, address := range map[string]string{
		"envoy":    startEnvoy(t, static(t, newTranslator(t, Options{Edge: true}), table, nil)),
		"embedded": embeddedWith(t, settings, table),
	} {
		t.Run(kind, func(t *testing.T) {
			answer := exchangeRaw(t, address, request)
			seen, ok := answer.Body.(echoed)
			if !ok {
				t.Fatalf("answered %v", answer)
			}
			seen.Header.Del("User-Agent") // depends on the proxy
			want := http.Header{
				"X-Forwarded-For": {"client"}, "X-Forwarded-Host": {"app.example.com"}, "X-Forwarded-Proto": {"http"},
				"X-Forwardedness": {"stays"}, "Not-X-Forwarded-For": {"stays"}, "X-Request-Id": {"made"},
			}
			if diff := cmp.Diff(want, seen.Header); diff != "" {
				t.Errorf("the application gets (-want +got):\n%s", diff)
			}
		})
	}
}
