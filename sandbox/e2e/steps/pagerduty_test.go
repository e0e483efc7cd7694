package steps

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

const pagerDutyKey = "0123456789abcdef0123456789abcdef"

// pagerDuty is a stand-in for PagerDuty's Events API v2 with one service.
type pagerDuty struct {
	standIn
	// incidents are the deduplication keys with their states, in the order in which they were
	// opened.
	incidents []pagerDutyIncident
}

type pagerDutyIncident struct {
	key, summary string
	open         bool
}

func (p *pagerDuty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var body struct {
		RoutingKey  string `json:"routing_key"`
		EventAction string `json:"event_action"`
		DedupKey    string `json:"dedup_key"`
		Payload     *struct{ Summary, Source, Severity string }
	}
	err := readJSON(r, &body)
	invalid := func(format string, args ...any) {
		p.refuse(w, r, http.StatusBadRequest, `{"status": "invalid event", "message": "Event object is invalid", "errors": ["`+format+`"]}`, args...)
	}
	payload, open := body.Payload, slices.IndexFunc(p.incidents, func(i pagerDutyIncident) bool { return i.open && i.key == body.DedupKey })
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v2/enqueue":
		p.refuse(w, r, http.StatusNotFound, "Not Found")
		return
	case err != nil:
		invalid("%v", err)
		return
	case body.RoutingKey != pagerDutyKey:
		invalid("Invalid routing key")
		return
	case body.DedupKey == "" || len(body.DedupKey) > 255:
		invalid("dedup_key %q", body.DedupKey)
		return
	case body.EventAction == "resolve":
		if open >= 0 {
			p.incidents[open].open = false
		}
	case body.EventAction != "trigger":
		invalid("event_action %q", body.EventAction)
		return
	case payload == nil || payload.Summary == "" || payload.Source == "" || !slices.Contains([]string{"critical", "error", "warning", "info"}, payload.Severity):
		invalid("payload %+v", payload)
		return
	case open < 0:
		p.incidents = append(p.incidents, pagerDutyIncident{body.DedupKey, payload.Summary, true})
	}
	p.answer(w, http.StatusAccepted, map[string]any{"status": "success", "message": "Event processed", "dedup_key": body.DedupKey})
}

// all are the summaries of the incidents, with their states.
func (p *pagerDuty) all() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.incidents {
		all = append(all, i.summary+", "+map[bool]string{true: "open", false: "resolved"}[i.open])
	}
	return all
}

// The sample for PagerDuty: a canary has an incident, one though the first answer is lost, which
// is resolved at the end and on an abort. After a full promotion it stays open, as the sample
// says.
func TestPagerDutySample(t *testing.T) {
	t.Parallel()
	p, n := &pagerDuty{standIn: standIn{loseAnswer: true}}, e2etest.NewNamespace(t)
	manifests := sample(t, "pagerduty.yaml", "events.pagerduty.com", e2etest.Serve(t, p))
	if text := strings.Join(manifests, ""); !strings.Contains(text, "`promote --full` calls no step") || !strings.Contains(text, "auto_resolve_timeout") {
		t.Error("the sample does not say what ends the incident after promote --full")
	}
	name := startSample(t, n, manifests, "name: pagerduty}\nstringData: {routing-key: "+pagerDutyKey+"}")
	about := n.Name + "/" + name + ": the canary of revision "

	n.AwaitPaused(name, 2)
	awaitTexts(t, "an incident", p.all, about+"2 runs, open")
	n.Promote(name)
	n.AwaitHealthy(name, e2etest.Image("yellow"))
	awaitTexts(t, "its end", p.all, about+"2 runs, resolved")

	n.SetImage(name, e2etest.Image("green"))
	n.AwaitPaused(name, 2)
	awaitTexts(t, "an incident of the second canary", p.all, about+"2 runs, resolved", about+"3 runs, open")
	n.Abort(name)
	n.AwaitAborted(name)
	awaitTexts(t, "its end on the abort", p.all, about+"2 runs, resolved", about+"3 runs, resolved")

	n.Retry(name)
	n.AwaitPaused(name, 2)
	n.Promote(name, "--full")
	n.AwaitHealthy(name, e2etest.Image("green"))
	awaitTexts(t, "it stays open", p.all, about+"2 runs, resolved", about+"3 runs, resolved", about+"3 runs, open")

	p.requireNoneRefused(t)
	requireHidden(t, n, pagerDutyKey)
}
