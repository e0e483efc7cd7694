package xds

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// The name of a cluster is found in the text of a refusal, but not within longer names.
func TestWordsOfRefusal(t *testing.T) {
	const name = "demo/app/app"
	for text, want := range map[string]bool{
		"":                                 false,
		"Error adding cluster(s) another":  false,
		"demo/app/app":                     true,
		"demo/app/app: bad":                true,
		"cluster(s) demo/app/app, b":       true,
		"the end is demo/app/app.":         true,
		"demo/app/app...":                  true,
		"demo/app/app-canary":              false,
		"demo/app/app.canary":              false,
		"demo/app/app-canary demo/app/app": true,
		"other-demo/app/app":               false,
		"other-demo/app/app demo/app/app":  true,
		"demo/app/appdemo/app/app":         false,
		"'demo/app/app'":                   true,
	} {
		if got := slices.Contains(slices.Collect(wordsOf(text)), name); got != want {
			t.Errorf("%q has the name: %v", text, got)
		}
	}
}

// Envoy prints the resource that it refuses. The value of a header may be a secret,
// and is in no log and no Event.
func TestARefusalIsToldWithoutValuesOfHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"headers {\n name: \"x-key\"\n string_match {\n exact: \"s3cret\"\n }\n}\n: bad": `headers { name: "x-key" string_match { exact: "..." } } : bad`,
		`exact: "a \"quoted\" s3cret" exact:"s3cret" bad`:                                `exact: "..." exact:"..." bad`,
		`{"stringMatch":{"exact":"s3cret"}}: bad`:                                        `{"stringMatch":{"exact":"..."}}: bad`,
		`exact: "s3cret that is cut`:                                                     `exact: "..."`,
		`exact: "s3cret that is cut\`:                                                    `exact: "..."`,
		`name: "exact" and no value`:                                                     `name: "exact" and no value`,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%s\n is told as %s\n   expected %s", text, got, want)
		}
	}
	if got := oneLine(strings.Repeat("long ", maxReason/5-2) + `exact: "` + strings.Repeat("s3cret", 10*maxReason)); strings.Contains(got, "s3") || len(got) > maxReason+3 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// Reading a long refusal of many clusters does not take long: the Envoy's next request is
// answered.
func TestLongRefusalOfManyClusters(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	for i := range 10000 {
		w.objectIn("demo", fmt.Sprint("app", i), nil, "app=1")
	}
	w.commit()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := w.dialer().StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *discoveryv3.DiscoveryRequest) *discoveryv3.DiscoveryResponse {
		t.Helper()
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		response, err := s.Recv()
		if err != nil {
			t.Fatalf("%s is not answered: %v", r.GetTypeUrl(), err)
		}
		return response
	}
	clusters := ask(&discoveryv3.DiscoveryRequest{Node: theNode, TypeUrl: typeURLs[cds]})
	err = s.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: typeURLs[cds], ResponseNonce: clusters.GetNonce(),
		ErrorDetail: refused(strings.Repeat("demo/app0 ", 1<<20)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ask(&discoveryv3.DiscoveryRequest{TypeUrl: typeURLs[lds]})
}
