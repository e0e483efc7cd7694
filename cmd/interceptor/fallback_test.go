package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// A fallback Service without addresses, to which kedify-proxies cannot hand over, is
// reported before it costs a request.
func TestAFallbackWithoutAddressesIsTold(t *testing.T) {
	var log bytes.Buffer
	var passed []netip.AddrPort
	f := newFallback(types.NamespacedName{Namespace: "keda", Name: "typo"}, slog.New(slog.NewTextHandler(&log, nil)), func(a []netip.AddrPort) { passed = a })
	is := func(want string) {
		t.Helper()
		var m dto.Metric
		if err := f.addresses.Write(&m); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(passed, " ", m.GetGauge().GetValue()); got != want {
			t.Errorf("passed on and counted %s, want %s", got, want)
		}
	}
	f.update(nil, "there is no such Service")
	is("[] 0")
	for _, part := range []string{"level=WARN", "--fallback-service is keda/typo, and there is no such Service"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is not in the log:\n%s", part, &log)
		}
	}
	log.Reset()
	f.update([]netip.AddrPort{netip.MustParseAddrPort("10.96.0.7:8081")}, "")
	is("[10.96.0.7:8081] 1")
	if strings.Contains(log.String(), "WARN") {
		t.Errorf("log:\n%s", &log)
	}
}

// An alert looks for a fallback Service without addresses: there is none to look for
// where none is wanted.
func TestNoMetricOfAFallbackThatIsOff(t *testing.T) {
	for name, want := range map[string]int{"": 0, "fallback": 1} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(newFallback(types.NamespacedName{Name: name}, slog.New(slog.DiscardHandler), nil))
		if families, err := registry.Gather(); err != nil || len(families) != want {
			t.Errorf("--fallback-service=%s: %v, %v; want %d", name, families, err, want)
		}
	}
}
