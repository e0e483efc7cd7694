package proxy

import (
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// value returns the value of a metric by name and label values, in the order in which
// the labels are declared; 0 if there is no such metric.
func value(t testing.TB, p *Proxy, name string, labels ...string) float64 {
	t.Helper()
	got, _ := find(t, p, name, labels...)
	return got
}

func find(t testing.TB, p *Proxy, name string, labels ...string) (value float64, found bool) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(p)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"namespace", "httpso", "service", "code", "outcome", "reason", "port", "by"}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			pairs := metric.GetLabel()
			var have []string
			for _, label := range order {
				for _, pair := range pairs {
					if pair.GetName() == label {
						have = append(have, pair.GetValue())
					}
				}
			}
			if slices.Equal(have, labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount()), true
			}
		}
	}
	return 0, false
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	code := http.StatusOK
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	w.object("")
	w.commit()
	for _, code = range []int{200, 200, 404, 299, 298, 799} {
		w.get("/")
	}
	r := w.request(http.MethodGet, "/", nil)
	r.Host = "other.test"
	w.do(r)
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"interceptor_requests_total", []string{"demo", "app", "stable", "200"}, 2},
		{"interceptor_requests_total", []string{"demo", "app", "stable", "404"}, 1},
		{"interceptor_requests_total", []string{"demo", "app", "stable", "2xx"}, 2},
		{"interceptor_requests_total", []string{"demo", "app", "stable", "7xx"}, 1},
		{"interceptor_requests_total", []string{"", "", "", "404"}, 1},
		{"interceptor_request_duration_seconds", []string{"demo", "app", "stable"}, 6},
		{"interceptor_requests_in_flight", []string{"demo", "app", "stable"}, 0},
		{"interceptor_table_generation", nil, 1},
		{"interceptor_table_routes", nil, 1},
	} {
		eventually(t, tt.name, func() bool { return value(t, w.proxy, tt.name, tt.labels...) == tt.want })
	}

	// A route that is gone has no metrics and no serving state any more.
	w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "app"})
	w.commit()
	for _, name := range []string{"interceptor_requests_total", "interceptor_requests_in_flight"} {
		labels := []string{"demo", "app", "stable"}
		if name == "interceptor_requests_total" {
			labels = append(labels, "200")
		}
		if _, found := find(t, w.proxy, name, labels...); found {
			t.Errorf("%s is there still", name)
		}
	}
	if n := len(w.proxy.registry.byName); n != 0 {
		t.Errorf("%d routes are kept", n)
	}
}

func TestServicesThatLeaveTheSplitLeaveTheMetrics(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("stable")))
	w.service("canary", "", w.app(named("canary")))
	w.object("stable=1 canary=1")
	w.commit()
	w.get("/")
	w.get("/")
	w.object("")
	w.commit()
	w.get("/")
	if _, found := find(t, w.proxy, "interceptor_requests_total", "demo", "app", "canary", "200"); found {
		t.Error("the canary is there still")
	}
	eventually(t, "stable counts on", func() bool {
		return value(t, w.proxy, "interceptor_requests_total", "demo", "app", "stable", "200") == 2
	})
}

// Outcomes that a Service never has are no series: 10,000 objects would have many.
func TestOnlyWhatOccursIsASeries(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(named("ok")))
	w.object("")
	w.commit()
	w.get("/")
	eventually(t, "the request is counted", func() bool {
		return value(t, w.proxy, "interceptor_requests_total", "demo", "app", "stable", "200") == 1
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.proxy)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]int)
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
	}
	for name, want := range map[string]int{
		"interceptor_requests_total": 1, "interceptor_tries_total": 1, "interceptor_answers_cut_short_total": 0, "interceptor_requests_limited_total": 0,
	} {
		if series[name] != want {
			t.Errorf("%s has %d series, want %d", name, series[name], want)
		}
	}
}
