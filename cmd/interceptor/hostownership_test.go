package main

import (
	"fmt"
	"net/http"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// The owner of a host is found among the objects that a proxy serves. At the embedded
// proxy, red owns the host, and blue's object gets no request for it. Blue's own
// kedify-proxy serves blue's object, and so does the interceptor for requests that this
// kedify-proxy hands over.
func TestHostOwnershipLeavesAFleetOfOneNamespaceAlone(t *testing.T) {
	s := newStack(t, func(o *settings.Settings) { o.Policy.HostOwnership = true })
	s.object("red")
	s.object("blue", func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{"/", "/blue"} })
	s.endpoint("red", says(t, "red"))
	s.startEnvoy(envoy.BootstrapOptions{Namespaces: []string{"blue"}})
	s.connected()
	client := newClient(t, &http.Transport{})
	at := func(port uint16) string { return fmt.Sprintf("http://127.0.0.1:%d/blue", port) }
	answer := make(chan string, 1)
	go func() {
		code, text, err := askAt(client, http.MethodGet, at(s.o.KedifyProxy.Port), nil)
		answer <- fmt.Sprint(code, " ", text, " ", err)
	}()
	s.envoy.Wait("the request held", func() error {
		if held := s.metric("interceptor_requests_held", "blue"); held != 1 {
			return fmt.Errorf("%v are", held)
		}
		return nil
	})
	if code, text, err := askAt(client, http.MethodGet, at(s.o.ProxyPort), nil); text != "red" {
		t.Errorf("the embedded proxy answers %d %q, %v; want red, who owns the host", code, text, err)
	}
	s.endpoint("blue", says(t, "blue"))
	if got := <-answer; got != "200 blue <nil>" {
		t.Errorf("blue's kedify-proxy answers %s", got)
	}
}
