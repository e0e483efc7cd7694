package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// answers are 100 a second, each by one of the colours in turn, one of five by green,
// which has failed it.
func answers(n int) []traffic.Answer {
	list := make([]traffic.Answer, n)
	for i := range list {
		sent := start.Add(time.Duration(i) * 10 * time.Millisecond)
		list[i] = traffic.Answer{Number: i, Sent: sent, Received: sent.Add(5 * time.Millisecond), Backend: []string{"blue", "yellow"}[i%2]}
		if i%5 == 4 {
			list[i].Backend, list[i].FailedBackend, list[i].Problem = "", "green", "status 500"
		}
	}
	return list
}

func TestRequests(t *testing.T) {
	all := append(answers(200), traffic.Answer{Sent: start.Add(2 * time.Second), Problem: "the connection was closed"})
	r := requestsOf(all)
	want := `  blue            39 ███████████████░░░░░░░░░░░░░░░░░░░░░░░░░
  yellow          40 ████████████████░░░░░░░░░░░░░░░░░░░░░░░░
  green           20 ████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
  requests       201, 100 a second, 41 failed, 40 by green; bars: the last 100
`
	if diff := cmp.Diff(want, texts(r.panel())); diff != "" {
		t.Errorf("panel (-want +got):\n%s", diff)
	}
	want = "requests        ███████▒▒▒▒▒▒▒▒░░░░  39 blue, 40 yellow, 20 green of the last 100; 201 sent, 100 a second, 41 failed, 40 by green"
	if got := r.line(); got != want {
		t.Errorf("line\n%q, want\n%q", got, want)
	}
	if got := requestsOf(answers(1)).line(); got != "requests        ████████████████████  1 blue of the last 1; 1 sent, 0 a second, 0 failed" {
		t.Errorf("line of one request: %q", got)
	}
}

func TestExposure(t *testing.T) {
	want := exposure{served: 20, failed: 20, lasted: 955 * time.Millisecond}
	if got := exposureOf(answers(100), "green"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := exposureOf(answers(100), "red"); got != (exposure{}) {
		t.Errorf("of a version that was asked nothing: %+v", got)
	}
}
