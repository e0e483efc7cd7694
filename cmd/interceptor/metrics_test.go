package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/events"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/watch"
)

// description matches the text of a prometheus.Desc.
var description = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", .*variableLabels: \{([^}]*)\}`)

// Dashboards and alerts are made of these names and labels: a change breaks them, and has
// to be made in docs/ too.
func TestNamesOfMetrics(t *testing.T) {
	want := map[string]string{
		"interceptor_requests_total":                     "namespace,httpso,service,code",
		"interceptor_requests_in_flight":                 "namespace,httpso,service",
		"interceptor_request_duration_seconds":           "namespace,httpso,service",
		"interceptor_connect_failures_total":             "namespace,httpso,service",
		"interceptor_unanswered_total":                   "namespace,httpso,service",
		"interceptor_requests_held":                      "namespace,httpso",
		"interceptor_cold_starts_total":                  "namespace,httpso,outcome",
		"interceptor_fallback_connections_refused_total": "",
		"interceptor_panics_total":                       "",
		"interceptor_connections":                        "port",
		"interceptor_connections_refused_total":          "port",
		"interceptor_memory_short":                       "",
		"interceptor_fallback_addresses":                 "",

		"interceptor_table_generation":   "",
		"interceptor_table_routes":       "",
		"interceptor_table_problems":     "namespace,httpso,reason",
		"interceptor_unreadable_objects": "",
		"interceptor_watch_up":           "resource",

		"interceptor_xds_streams":                      "kind",
		"interceptor_xds_unidentified_streams":         "",
		"interceptor_xds_virtual_hosts_rendered_total": "",
		"interceptor_xds_pushes_total":                 "type",
		"interceptor_xds_nacks_total":                  "type",
		"interceptor_xds_routes_acknowledged_seconds":  "",
		"interceptor_xds_resources":                    "type",
		"interceptor_xds_refused_objects":              "",
		"interceptor_xds_unacknowledged_seconds":       "state",

		"interceptor_events_total":   "outcome",
		"interceptor_events_waiting": "",
	}
	log := slog.New(slog.DiscardHandler)
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	o, err := readOptions(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(o.proxy, log)
	if err != nil {
		t.Fatal(err)
	}
	x, err := newXDS(o, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := watch.New(config, watch.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	recorder, err := events.New(config, log)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range []prometheus.Collector{p, x, w, recorder, newFallback(types.NamespacedName{}, log, nil)} {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			c.Describe(descs)
		}()
		for desc := range descs {
			found := description.FindStringSubmatch(desc.String())
			if found == nil {
				t.Fatalf("cannot be read: %s", desc)
			}
			if found[2] == "" {
				t.Errorf("%s says nothing for people", found[1])
			}
			got[found[1]] = found[3]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics and their labels (-want +got):\n%s", diff)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var docs strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		docs.Write(text)
	}
	for name := range got {
		if !strings.Contains(docs.String(), name) {
			t.Errorf("nothing in docs/ tells of %s", name)
		}
	}
}
