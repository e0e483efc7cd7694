package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackOff(t *testing.T) {
	var b backOff
	var got []time.Duration
	for range 8 {
		got = append(got, b.next(time.Second))
	}
	want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	if d := b.next(9 * time.Minute); d != 5*time.Minute {
		t.Errorf("after a run of 9 minutes: %v, want 5m", d)
	}
	if d := b.next(10 * time.Minute); d != 0 {
		t.Errorf("after a run of 10 minutes: %v, want none", d)
	}
	if d := b.next(time.Second); d != 10*time.Second {
		t.Errorf("after that: %v, want 10s", d)
	}
}
