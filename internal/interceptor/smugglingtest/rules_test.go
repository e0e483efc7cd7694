package smugglingtest

import (
	"fmt"
	"strings"
	"testing"
)

// TestRules checks, rule by rule, how the judge rates what a client and the
// applications got.
func TestRules(t *testing.T) {
	const host = "app.test"
	of := func(application, target, body string) answer {
		return answer{status: 200, body: fmt.Sprintf(`{"Application":%q,"Target":%q,"Body":%q}`, application, target, body)}
	}
	last := of("other", "/after/c", "")
	last.closes = true
	served := []answer{of("app", "/case/c", ""), last}
	refused := []answer{{status: 400, closes: true}}
	second := of("other", "/smuggled/c", "")
	arrived := arrival{application: "app", kind: "case", target: "/case/c", complete: true}
	follows := arrival{application: "other", kind: "smuggled", target: "/smuggled/c", complete: true}
	for name, tt := range map[string]struct {
		c        Case
		answers  []answer
		arrivals []arrival
		hung     bool
		want     string // "" for no fault
	}{
		"served":                         {c: Case{Want: Served}, answers: served, arrivals: []arrival{arrived}},
		"served in part":                 {c: Case{Want: Served}, answers: served[:1], want: "the request behind it got no answer"},
		"served, and closed":             {c: Case{Want: Served}, answers: []answer{{status: 200, body: served[0].body, closes: true}}},
		"served by another":              {c: Case{Want: Served}, answers: []answer{of("other", "/case/c", ""), last}, want: `application "other" has answered`},
		"served by the other":            {c: Case{Want: Served, Other: true}, answers: []answer{of("other", "/case/c", ""), last}},
		"served with another body":       {c: Case{Want: Served, Body: "a"}, answers: served, want: `body "a"`},
		"served for another path":        {c: Case{Want: Served}, answers: []answer{of("app", "/after/c", ""), last}, want: "want application"},
		"answered by the proxy":          {c: Case{Want: Served}, answers: []answer{{status: 200, body: "ok"}, last}, want: "not an application's"},
		"refused wrongly":                {c: Case{Want: Served}, answers: refused, want: "it is to be served, and was answered with 400"},
		"served wrongly":                 {c: Case{Want: Refused}, answers: served, want: "it is to be refused, and was answered with 200"},
		"refused":                        {c: Case{Want: Refused}, answers: refused},
		"refused after its beginning":    {c: Case{Want: Refused}, answers: refused, arrivals: []arrival{{application: "app", kind: "case", target: "/case/c"}}},
		"refused after its end":          {c: Case{Want: Refused}, answers: refused, arrivals: []arrival{arrived}, want: "the proxy has refused it, and"},
		"refused after its end, as may":  {c: Case{Want: Refused, MayArrive: true}, answers: refused, arrivals: []arrival{arrived}},
		"refused by the application":     {c: Case{Want: Refused}, answers: []answer{{status: 502}}, want: "was answered with 502"},
		"closed":                         {c: Case{Want: Refused}, want: "it got no answer"},
		"closed, as may":                 {c: Case{Want: Refused, MayClose: true}},
		"closed in place of served":      {c: Case{Want: Served, MayClose: true}, want: "it is to be served"},
		"hung":                           {c: Case{Want: Refused}, answers: refused, hung: true, want: "hangs"},
		"asked twice":                    {c: Case{Want: Served}, answers: served, arrivals: []arrival{arrived, arrived}, want: "2 times"},
		"a second one, answered":         {c: Case{Want: RefusedOrServed}, answers: []answer{served[0], second, last}, arrivals: []arrival{arrived, follows}, want: "a second request has reached"},
		"a second one, as may":           {c: Case{Want: RefusedOrServed, SecondMayFollow: true}, answers: []answer{served[0], second, last}, arrivals: []arrival{arrived, follows}},
		"a second one without an answer": {c: Case{Want: RefusedOrServed, SecondMayFollow: true}, answers: served, arrivals: []arrival{arrived, follows}, want: "the client got 0 answers"},
	} {
		tt.c.Name, tt.c.Text = "c", "text"
		j := &judge{
			Target:      Target{Host: host, App: &Application{Name: "app"}, Other: &Application{Name: "other"}},
			transcripts: map[string]transcript{"c": {answers: tt.answers, hung: tt.hung}},
			arrived:     map[string][]arrival{"c": tt.arrivals},
			faults:      map[string][]string{},
		}
		j.judge(tt.c)
		got := strings.Join(j.faults["c"], "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
