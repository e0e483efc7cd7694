package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

func texts(lines []Line) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimRight(line.Text, " ") + "\n")
	}
	return text.String()
}

func TestTable(t *testing.T) {
	good, bad := Act{Title: "promoted", Image: "demo:yellow"}, Act{Title: "aborted", Image: "demo:bad-yellow", CaughtAt: 20}
	// The promotion's annotations come after 1, 5, 9, 13 and 15 s: a second is too
	// short to judge the requests before the first.
	promotion := played{act: good, versions: blueToYellow, judgement: Judge(good.Expect(guide), toTheEnd()), analysis: passed}
	outcomes := judgeActs([]played{promotion}, sent{answers: requests(phase{1, 0}, phase{4, 20}, phase{4, 50}, phase{4, 80}, phase{4, 100})}, Embedded)
	abort := played{act: bad, versions: blueToBadYellow, judgement: Judge(bad.Expect(guide), caughtAt20()), analysis: failed, last: abortedByIt}
	outcomes = append(outcomes, judgeActs([]played{abort}, sent{answers: faulty("yellow", 15)}, Embedded)...)
	want := `
  STEP                        REQUESTS  NEW ASKED  NEW SEEN        FAILED
  yellow: promoted
    before                    100       0 %        0.0 % of 50     0             ✗
    1/6 setWeight 20          400       20 %       20.0 % of 250   0             ✓
    3/6 setWeight 50          400       50 %       50.0 % of 250   0             ✓
    5/6 setWeight 80          400       80 %       80.0 % of 250   0             ✓
    all steps done, promoted  400       100 %      100.0 % of 300  0             ✓
  bad-yellow: aborted
    before                    400       0 %        0.0 % of 350    0             ✓
    1/6 setWeight 20          400       20 %       20.0 % of 250   12 by yellow  ✓
    aborted                   400       0 %        0.0 % of 300    0             ✓

  NEW: the new version's share. ✓: the split and the verified weight are
  the step's; 100 requests or more came while nothing changed, in that share
  (± 1 in any 100 requests in a row);
  and none failed but a bad version's own.
  ✗ yellow: before: 50 requests while nothing changed are too few to tell where they go; it takes 100
  bad-yellow: 4s from its first request to all traffic being back; 12 of its 80 failed.

Not everything was as claimed: see ✗ above (1m1s, 2900 requests).
`
	if diff := cmp.Diff(want, texts(table(outcomes, Embedded, 61*time.Second))); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}

	// Requests with a header have rows of their own.
	header := outcomes[1]
	header.Header, header.HeaderStages = "X-Beta: yes", outcomes[0].Stages[1:3]
	got := texts(table([]Outcome{header}, Gateway, 61*time.Second))
	for _, want := range []string{
		"    aborted             400       0 %        0.0 % of 300   0             ✓\n    with the header X-Beta: yes\n      1/6 setWeight 20  400       20 %       20.0 % of 250  0             ✓\n",
		"As claimed, in 1m1s: of 2000 requests 12 failed, all of them the bad version's own.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want in the table %q:\n%s", want, got)
		}
	}

	// A version that is not caught.
	never := played{act: bad, versions: blueToBadYellow, judgement: Judge(bad.Expect(guide), caughtAt20()[:3]), last: Status{Phase: "Paused"}}
	got = texts(table(judgeActs([]played{never}, sent{answers: faulty("yellow", 15)[:800]}, Embedded), Embedded, time.Minute))
	if want := "bad-yellow: 12 of its 80 requests failed; not all traffic was seen to be back."; !strings.Contains(got, want) || strings.Contains(got, "As claimed") {
		t.Errorf("want %q and not as claimed in the table:\n%s", want, got)
	}

	// The same without the first act.
	got = texts(table(outcomes[1:], Envoy, 61*time.Second))
	if want := "\nAs claimed, in 1m1s: of 1200 requests 12 failed, all of them the bad version's own.\n"; !strings.HasSuffix(got, want) {
		t.Errorf("want at the end of the table %q:\n%s", want, got)
	}

	// Acts without a bad version.
	promotion.act.ByHand, promotion.analysis = true, Analysis{}
	got = texts(table(judgeActs([]played{promotion}, sent{answers: requests(phase{1, 0}, phase{4, 20}, phase{4, 50}, phase{4, 80}, phase{4, 100})}, Embedded)[:1], Envoy, time.Minute))
	if strings.Contains(got, "analysis") {
		t.Errorf("an analysis is missed where none is to be:\n%s", got)
	}
}

func TestPanel(t *testing.T) {
	now := Seen{Status: Status{
		Phase: "Paused", Message: "CanaryPauseStep", Step: 3, Weight: 50, Verified: true, Paused: true,
		Image: "demo:yellow", Replicas: 3, Updated: 1, Ready: 3,
	}, Split: text50}
	got := texts(panel(guide, now, Live{}, "promote"))
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
  next           promote
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("panel (-want +got):\n%s", diff)
	}

	var live Live
	live.Versions = Versions{Old: "blue", New: "yellow"}
	live.add(split(start, 150, 50), 0)
	live.add(append(split(start, 150, 50), traffic.Answer{Sent: start.Add(1500 * time.Millisecond), Problem: "gone"}), 150)
	got = texts(panel(guide, now, live, ""))
	for _, want := range []string{
		"  blue            49 ███████████████████░░░░░░░░░░░░░░░░░░░░░\n",
		"  yellow          50 ████████████████████░░░░░░░░░░░░░░░░░░░░\n",
		"  requests       151, 100 a second, 1 failed; the bars are of the last 100\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("panel has no %q:\n%s", want, got)
		}
	}
	if got, want := live.line(), "requests    ██████████▒▒▒▒▒▒▒▒▒▒  49 blue, 50 yellow of the last 100; 151 sent, 100 a second, 1 failed"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}

	live.Versions.Old = "" // before the first canary
	if got, want := live.line(), "requests    ██████████▒▒▒▒▒▒▒▒▒▒  50 yellow of the last 100; 151 sent, 100 a second, 1 failed"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}

	now.Split, now.Aborted = "", true
	got = texts(panel(guide, now, Live{}, "go on"))
	for _, want := range []string{"annotation     none", "next           go on", "- 20 %"} {
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
		"pods": { // KEDA scales in the guide alone
			now: Seen{Status: Status{Phase: "Healthy", Step: 6, Verified: true, Replicas: 5, Updated: 1}},
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
