package demo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/traffic"
)

func texts(lines []Line) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight(line.Text, " ") + "\n")
	}
	return text.String()
}

func TestTable(t *testing.T) {
	good := Judge(Act{}.Expect(guide), toTheEnd())
	bad := Judge(Act{AbortAt: 50}.Expect(guide), seen(at(0, 0, ""), at(0, 20, text50)))
	got := texts(table([]Outcome{
		{Act{Title: "first"}, good, []Stage{
			{Title: "before", Requests: 150, Steady: 100},
			{Title: "1/6 setWeight 20", Share: 20, Requests: 500, Steady: 400, New: 80, First: 12345 * time.Microsecond, HasFirst: true},
			{Title: "all steps done", Share: 100, Requests: 2},
		}},
		{Act{Title: "second"}, bad, []Stage{
			{
				Title: "1/6 setWeight 20", Share: 20, Requests: 500, Steady: 400, New: 100, ShareError: errors.New("of 100 it is 25"),
				Failed: []traffic.Answer{{Number: 7, Sent: start, Received: start.Add(time.Second), Connection: 1, Problem: "status 503: no"}},
			},
		}},
	}, Embedded))
	want := `
  STEP                ASKED  ROLLOUT  ANNOTATION  AFTER
  first
    1/6 setWeight 20  20     20       s=80, c=20  1s     ✓
    3/6 setWeight 50  50     50       s=50, c=50  1s     ✓
    5/6 setWeight 80  80     80       s=20, c=80  1s     ✓
    all steps done    100    100      s=0, c=100  1s     ✓
    promoted          0      0        none        1s     ✓
  second
    1/6 setWeight 20  20     20       s=50, c=50  -      ✗
    3/6 setWeight 50  50     -        -           -      ✗
    aborted           0      -        -           -      ✗

  AFTER: from the step being reached to the annotation being there; the start of
  the pods that the weight waits for is part of it. ✓: seen exactly as asked, in
  this order, nothing in between, and verified by the Rollout.

  STEP                REQUESTS  SHARE ASKED  SHARE SEEN     ERRORS  FIRST ANSWER
  first
    before            150       0 %          0.0 % of 100   0       -             ✓
    1/6 setWeight 20  500       20 %         20.0 % of 400  0       12ms          ✓
    all steps done    2         100 %        -              0       -             ✓
  second
    1/6 setWeight 20  500       20 %         25.0 % of 400  1       -             ✗

  SHARE: of the new version; SEEN: while nothing changes, from 1s after an annotation
  on. ERRORS: no proper answer, or one of a version without a share. FIRST ANSWER:
  from the demo's watch seeing the annotation to the new version's next answer; its
  wait for its turn, of 100 requests a second, is part of it. ✓: no errors, and the
  share is as asked, ± 1 in any 100 requests in a row.
  ✗ second: 1/6 setWeight 20: the annotation became s=50, c=50 instead of s=80, c=20
  ✗ second: 3/6 setWeight 50: was never reached
  ✗ second: aborted: was never reached
  ✗ second: 1/6 setWeight 20: 1 requests failed
  ✗ second:   request 7, sent 03:04:05.000 on connection 1, after 1s: status 503: no
  ✗ second: 1/6 setWeight 20: of 100 it is 25
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestPanel(t *testing.T) {
	now := Seen{Status: Status{
		Phase: "Paused", Message: "CanaryPauseStep", Step: 3, Weight: 50, Verified: true, Paused: true, PausedAt: start,
		Image: "demo:yellow", Replicas: 3, Updated: 1, Ready: 3,
	}, Split: text50}
	got := texts(panel(guide, now, Live{}, "", start.Add(12*time.Second)))
	want := strings.Repeat("─", 76) + `
  Rollout        Paused: CanaryPauseStep
  image          demo:yellow
  pods           3, 1 of them new, 3 ready
  steps          ✓ 20 %   ✓ pause   ✓ 50 %   ▶ pause 30s   · 80 %   · pause 30s
  canary weight   50 ████████████████████░░░░░░░░░░░░░░░░░░░░ verified
  annotation     - service: s
                   weight: 50
                 - service: c
                   weight: 50
  next           the pause ends in 18s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("panel (-want +got):\n%s", diff)
	}

	var live Live
	live.Versions = Versions{Old: "blue", New: "yellow"}
	live.add(split(start, 150, 50), 0)
	live.add(append(split(start, 150, 50), traffic.Answer{Problem: "gone"}), 150)
	got = texts(panel(guide, now, live, "", start))
	for _, want := range []string{
		"  blue            49 ███████████████████░░░░░░░░░░░░░░░░░░░░░\n",
		"  yellow          50 ████████████████████░░░░░░░░░░░░░░░░░░░░\n",
		"  requests       151, 1 of them failed; the bars are of the last 100\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("panel has no %q:\n%s", want, got)
		}
	}
	if got, want := live.line(), "requests    ██████████▒▒▒▒▒▒▒▒▒▒  49 blue, 50 yellow of the last 100; 151 sent, 1 failed"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}

	now.Split, now.Aborted = "", true
	got = texts(panel(guide, now, Live{}, "abort in 2s", start))
	for _, want := range []string{"annotation     none", "next           abort in 2s", "- 20 %"} {
		if !strings.Contains(got, want) {
			t.Errorf("panel has no %q:\n%s", want, got)
		}
	}
}

func TestChanges(t *testing.T) {
	before := Seen{Status: Status{Phase: "Healthy", Step: 6, Verified: true}}
	tests := map[string]struct {
		from Seen // before, unless given
		now  Seen
		want []string
	}{
		"nothing": {now: before},
		"the first step": {
			now:  Seen{Status: Status{Phase: "Progressing", Message: "more replicas", Verified: true}},
			want: []string{"Rollout     step 1/6: setWeight 20", "Rollout     Progressing: more replicas"},
		},
		"a weight": {
			now:  Seen{Status: Status{Phase: "Healthy", Step: 6, Weight: 20}, Split: text20},
			want: []string{"annotation  s=80, c=20", "weight      20, not verified yet"},
		},
		"a step back after an abort": {
			now: Seen{Status: Status{Phase: "Healthy", Aborted: true, Verified: true}}, from: Seen{Status: Status{Phase: "Healthy", Step: 3, Aborted: true, Verified: true}},
		},
		"an abort": {
			now:  Seen{Status: Status{Phase: "Degraded", Aborted: true, Verified: true}},
			want: []string{"Rollout     aborted", "Rollout     Degraded"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			from := before
			if tt.from != (Seen{}) {
				from = tt.from
			}
			if diff := cmp.Diff(tt.want, changes(guide, from, tt.now)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// record returns a screen on a file, and what has been written to it.
func record(t *testing.T) (*Screen, func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "screen")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return NewScreen(file), func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}

func TestScreenPlain(t *testing.T) {
	screen, written := record(t)
	for _, err := range []error{
		screen.Say(Line{"one", Bold}), screen.Panel([]Line{{"live", Plain}}), screen.Sayf(Good, "%d", 2), screen.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := written(), "one\n2\n"; got != want {
		t.Errorf("without a terminal %q was written, want %q", got, want)
	}
}

func TestScreenTerminal(t *testing.T) {
	screen, written := record(t)
	screen.terminal, screen.colours = true, true
	screen.size = func() (int, int) { return 8, 3 }
	for _, err := range []error{
		screen.Say(Line{"one", Bold}),
		screen.Panel([]Line{{"too long a line", Plain}, {"b", Plain}, {"below the edge", Plain}}),
		screen.Say(Line{"two", Plain}),
		screen.Panel([]Line{{"c", Plain}}),
		screen.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "\x1b[1mone\x1b[0m\n" +
		"\x1b[?25ltoo lo…\nb\n" + // two lines: as many as fit
		"\x1b[2F\x1b[Jtwo\n" + // they are cleared for what stays
		"\x1b[?25lc\n" +
		"\x1b[1F\x1b[J\x1b[?25h" // and the cursor is back
	if diff := cmp.Diff(want, written()); diff != "" {
		t.Errorf("written to the terminal (-want +got):\n%s", diff)
	}
}
