package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// many is a prometheus.Collector of more metrics than the kernel buffers for a client
// that does not read.
type many struct{ collected atomic.Int64 }

var manyDesc = prometheus.NewDesc("many", "Many metrics.", []string{"n"}, nil)

func (*many) Describe(descs chan<- *prometheus.Desc) { descs <- manyDesc }

func (m *many) Collect(collected chan<- prometheus.Metric) {
	m.collected.Add(1)
	for i := range 20_000 {
		collected <- prometheus.MustNewConstMetric(manyDesc, prometheus.GaugeValue, 1, fmt.Sprint(strings.Repeat("x", 1000), i))
	}
}

// Clients that do not read their scrapes keep two of them in memory at most, and
// Prometheus gets its own.
func TestClientsThatDoNotReadMetrics(t *testing.T) {
	s := newStack(t, nil)
	m := new(many)
	s.registry.MustRegister(m)
	for range 15 {
		c, err := dialFrom(2, s.o.MetricsPort)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: metrics\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.o.MetricsPort))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), "many{") {
		t.Errorf("%s, %v, %d bytes", response.Status, err, len(text))
	}
	if n := m.collected.Load(); n > 2 {
		t.Errorf("%d scrapes are in memory, want 2 at most", n)
	}
}
