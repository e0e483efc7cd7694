package proxy

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHowNearTheLimitsAre(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeld, s.MaxHeldPerRoute, s.MaxConnections = 10, 4, 9 })
	w.cold("red/a", "red/b")
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	w.filled(client, 2, 0, "red/a")
	w.filled(client, 1, 0, "red/b")
	got := make(map[string][2]float64)
	for _, l := range w.proxy.Limits() {
		if l.Used > got[l.Name][0] {
			got[l.Name] = [2]float64{l.Used, l.Max}
		}
	}
	if bytes := got["max-held-bytes"]; bytes[0] < 3<<10 || bytes[1] != float64(DefaultSettings().MaxHeldBytes) {
		t.Errorf("bytes %v", bytes)
	}
	delete(got, "max-held-bytes")
	delete(got, "GOMEMLIMIT") // as the environment of the test has it
	want := map[string][2]float64{"max-held": {3, 10}, "max-held-per-route": {2, 4}, "max-connections": {3, 9}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("used and most (-want +got):\n%s", diff)
	}
}
