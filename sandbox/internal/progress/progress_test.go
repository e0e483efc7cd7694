package progress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlainStatusIsPaced(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	p := New(&out)
	p.now = func() time.Time { return now }
	p.last = now

	p.Say("building %s", "x")
	p.Status("1 of 3")
	now = now.Add(plainInterval - time.Second)
	p.Status("2 of 3")
	now = now.Add(time.Second)
	p.Status("3 of 3")
	p.Status("3 of 3")
	p.Done()

	if diff := cmp.Diff("building x\n3 of 3\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestTerminalStatusIsReplaced(t *testing.T) {
	var out strings.Builder
	p := New(&out)
	p.terminal = true
	p.width = func() int { return 10 }

	p.Status("short")
	p.Status("a line that does not fit")
	p.Say("kept")

	want := "short" + "\r\x1b[K" + "a line t…" + "\r\x1b[K" + "kept\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestNilPrinterDiscards(*testing.T) {
	var p *Printer
	p.Say("x")
	p.Status("x")
	p.Done()
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		400 * time.Millisecond:         "0s",
		7 * time.Second:                "7s",
		190*time.Second + 1:            "3m10s",
		2*time.Hour + 5*time.Second/10: "2h0m1s",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %q, want %q", d, got, want)
		}
	}
}
