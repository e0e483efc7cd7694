package demo

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// The shares of each half second are as high as they were, whatever was sent before and
// after.
func TestPicture(t *testing.T) {
	from := time.Unix(1000, 0)
	var answers []traffic.Answer
	at := func(ms int, backend string) {
		a := traffic.Answer{Sent: from.Add(time.Duration(ms) * time.Millisecond), Backend: backend}
		if backend == "" {
			a.Problem, a.FailedBackend = "status 500", "green"
		}
		answers = append(answers, a)
	}
	for _, ms := range []int{-1, 0, 100, 200, 499} {
		at(ms, "blue")
	}
	for _, ms := range []int{500, 600, 999} {
		at(ms, "yellow")
	}
	at(700, "")
	at(1000, "blue")
	p := picture{
		from: from, to: from.Add(time.Second), answers: answers,
		above: []moment{{from.Add(500 * time.Millisecond), "20 %"}},
		below: []moment{{from, "a < b"}},
	}
	svg, err := p.svg()
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Errorf("%v in:\n%s", err, svg)
	}
	for _, want := range []string{
		`<path fill="#5b8def" d="M50 190.0V60.0H445.0V190.0H840.0V190.0H445.0V190.0H50.0Z"/>`,
		`<path fill="#f2c14e" d="M50 60.0V60.0H445.0V92.5H840.0V190.0H445.0V60.0H50.0Z"/>`,
		`<path fill="#d1343f" d="M50 60.0V60.0H445.0V60.0H840.0V92.5H445.0V60.0H50.0Z"/>`,
		`M445 54`, `>20 %</text>`, `>a &lt; b</text>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in:\n%s", want, svg)
		}
	}
	if p.to = from.Add(2 * time.Second); true {
		if _, err := p.svg(); err == nil || !strings.Contains(err.Error(), "no request was sent") {
			t.Errorf("%v for a time without requests", err)
		}
	}
}
