package httpstep

import (
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// why is the reason of the aborts in the tests of samples.
const why = `Step Plugin 4 (kedify/step) failed: "gate": it is <shut> & shut`

// tellingSamples are the samples of which no step waits, each with what its API has after a
// canary that goes through, and after one that is aborted behind the first step.
var tellingSamples = map[string]struct {
	host             string
	api              func() *standIn
	secret           string
	data             map[string]string
	through, aborted string
	// lost is what the API has if the answer to the first call was lost; as without that if it
	// is empty.
	lost string
}{
	"slack.yaml": {
		host: "slack.com", api: newSlack, secret: "slack", data: map[string]string{"token": "xoxb-t0ken"},
		through: "demo/catalog: the canary of revision 7 has begun | demo/catalog: the canary of revision 7 is through",
		aborted: "demo/catalog: the canary of revision 7 has begun | demo/catalog: the canary of revision 7 was aborted: " + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(why),
		lost:    "demo/catalog: the canary of revision 7 has begun\ndemo/catalog: the canary of revision 7 has begun | demo/catalog: the canary of revision 7 is through",
	},
	"teams.yaml": {
		host: "environment.api.powerplatform.com", api: newTeams, secret: "teams",
		data:    map[string]string{"url": "URL/workflows/1/triggers/manual/paths/invoke?api-version=1&sig=s1gnature-of-the-url"},
		through: "demo/search: the canary of revision 7 has begun\ndemo/search: the canary of revision 7 is through",
		aborted: "demo/search: the canary of revision 7 has begun\ndemo/search: the canary of revision 7 was aborted: " + why,
		lost:    "demo/search: the canary of revision 7 has begun\ndemo/search: the canary of revision 7 has begun\ndemo/search: the canary of revision 7 is through",
	},
	"grafana.yaml": {
		host: "grafana.example.com", api: newGrafana, secret: "grafana", data: map[string]string{"token": "glsa_t0ken"},
		through: "canary,begin,demo,cart: The canary of revision 7 has begun: argoproj/rollouts-demo:blue\ncanary,end,demo,cart: The canary of revision 7 is through",
		aborted: "canary,begin,demo,cart: The canary of revision 7 has begun: argoproj/rollouts-demo:blue\ncanary,abort,demo,cart: The canary of revision 7 was aborted: " + why,
		lost: "canary,begin,demo,cart: The canary of revision 7 has begun: argoproj/rollouts-demo:blue\ncanary,begin,demo,cart: The canary of revision 7 has begun: argoproj/rollouts-demo:blue\n" +
			"canary,end,demo,cart: The canary of revision 7 is through",
	},
	"jira.yaml": {
		host: "acme.atlassian.net", api: func() *standIn { return newJIRA("Ready") }, secret: "jira",
		data:    map[string]string{"email": "rollouts@example.com", "token": "j1ra-t0ken"},
		through: "Ready 31 Deploying",
		aborted: "Ready 31 Deploying\nDeploying 41 Ready",
	},
	"pagerduty.yaml": {
		host: "events.pagerduty.com", api: newPagerDuty, secret: "pagerduty", data: map[string]string{"routing-key": "0123456789abcdef0123456789abcdef"},
		through: "info: demo/orders: the canary of revision 7 runs: resolved",
		aborted: "info: demo/orders: the canary of revision 7 runs: resolved",
	},
	"idempotency-key.yaml": {
		host: "api.example.com", api: newWarmUps, secret: "api", data: map[string]string{"token": "api-t0ken"},
		through: "shipping", aborted: "shipping",
	},
}

// Each sample that tells something sends what the API takes: when the canary goes through, when
// it is aborted, after a lost answer, and after an outage. Nothing that people read has a secret.
func TestSamplesThatTell(t *testing.T) {
	for file, sample := range tellingSamples {
		for name, change := range map[string]func(*standIn){
			"through": func(*standIn) {}, "aborted": func(*standIn) {},
			"an answer is lost":    func(s *standIn) { s.lose = 1 },
			"a short outage":       func(s *standIn) { s.down = 1 },
			"an outage":            func(s *standIn) { s.down = 1000 },
			"another's credential": func(*standIn) {},
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				api := sample.api()
				change(api)
				c := newCanary(t, file, sample.host, api, sample.secret, sample.data)
				want, refuses := sample.through, false
				switch name {
				case "aborted":
					want = sample.aborted
					c.walk(true)
					c.abort(why)
				case "another's credential":
					want, refuses = "", true
					data := map[string]string{}
					for key, value := range sample.data {
						data[key] = strings.NewReplacer("t0ken", "0ther", "s1gnature", "0ther", "0123", "4444").Replace(value)
					}
					c.putSecret("argo-rollouts", sample.secret, withURL(data, c.outside.URL))
					c.walk(true)
				default:
					c.walk(false)
				}
				switch {
				case name == "an answer is lost" && sample.lost != "":
					want = sample.lost
				case name == "an outage":
					want = ""
				}
				got, refused := api.has()
				if got != want {
					t.Errorf("the API has\n%s\nwant\n%s\n%s", got, want, c.events.text())
				}
				if (len(refused) > 0) != refuses && name != "an outage" {
					t.Errorf("the API does not take %q", refused)
				}
				// The warm-up is work that the canary needs.
				if file != "idempotency-key.yaml" && c.last.Phase != types.PhaseSuccessful {
					t.Errorf("the step is %s: %s", c.last.Phase, c.last.Message)
				}
				for _, value := range sample.data {
					if said := c.events.text() + c.logged() + string(c.status) + c.last.Message; strings.Contains(said, value) && value != "rollouts@example.com" {
						t.Errorf("a secret is said: %s", said)
					}
				}
			})
		}
	}
}

// A canary that finds the issue in the status leaves it there, and takes it back on an abort.
// Where the workflow has gone on meanwhile, an Event says that the transition is not made.
func TestTheSampleForJIRAFindsTheStatus(t *testing.T) {
	sample := tellingSamples["jira.yaml"]
	api := newJIRA("Deploying")
	c := newCanary(t, "jira.yaml", sample.host, api, sample.secret, sample.data)
	c.walk(false)
	if got, _ := api.has(); got != "" || !strings.Contains(c.last.Message, "found") {
		t.Errorf("the issue has made %q: %s", got, c.last.Message)
	}
	c.abort(why)
	if got, _ := api.has(); got != "Deploying 41 Ready" {
		t.Errorf("the issue has made %q", got)
	}
	api = newJIRA("Done")
	c = newCanary(t, "jira.yaml", sample.host, api, sample.secret, sample.data)
	c.walk(false)
	c.require(types.PhaseSuccessful, "failed, and ignored: ", "400 Bad Request")
}

// Slack refuses an update with an answer of 200: an Event says what stays.
func TestTheSampleForSlackIsToldWhatSlackRefuses(t *testing.T) {
	sample := tellingSamples["slack.yaml"]
	api := newSlack()
	c := newCanary(t, "slack.yaml", sample.host, api, sample.secret, sample.data)
	c.walk(true)
	c.putSecret("argo-rollouts", "slack", map[string]string{"token": "xoxb-revoked"})
	c.ro.Status.Abort = true
	_, _ = c.plugin.Abort(c.ro, c.call())
	eventually(t, "an Event tells what stays", func() bool {
		return strings.Contains(c.events.text(), "StepLeftBehind") && strings.Contains(c.events.text(), "invalid_auth")
	})
	if _, refused := api.has(); len(refused) != 1 {
		t.Errorf("a refused update is made again: %q", refused)
	}
}

// The samples that wait: their work is started once, ends as it ends outside, and is stopped
// when the canary is aborted meanwhile.
func TestSamplesThatWait(t *testing.T) {
	for file, sample := range map[string]struct {
		host, secret, key, value       string
		api                            func(ends string) *standIn
		good, bad, running, afterAbort string
	}{
		"runbook.yaml":          {"rundeck.example.com", "rundeck", "token", "rundeck-t0ken", newRundeck, "succeeded", "timedout", "running", "aborted"},
		"approval-request.yaml": {"approvals.example.com", "approvals", "token", "approvals-t0ken", newApprovals, "approved", "rejected", "waiting", "withdrawn"},
	} {
		for name, change := range map[string]func(*standIn){
			"as it should": func(*standIn) {}, "an answer is lost": func(s *standIn) { s.lose = 1 }, "an outage": func(s *standIn) { s.down = 3 },
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				t.Parallel()
				begin := func(ends string) (*canary, *standIn) {
					api := sample.api(ends)
					change(api)
					return newCanary(t, file, sample.host, api, sample.secret, map[string]string{sample.key: sample.value}), api
				}
				for ends, phase := range map[string]types.StepPhase{sample.good: types.PhaseSuccessful, sample.bad: types.PhaseFailed} {
					c, api := begin(ends)
					c.walk(false)
					if got, refused := api.has(); got != ends || len(refused) > 0 || c.last.Phase != phase {
						t.Errorf("%s: the API has %q and does not take %q, the step is %s: %s", ends, got, refused, c.last.Phase, c.last.Message)
					}
					if strings.Contains(c.events.text()+c.logged(), sample.value) {
						t.Error("a secret is said")
					}
				}
				if name != "as it should" {
					return
				}
				c, api := begin(sample.running)
				c.begin(2)
				if got, _ := api.has(); got != sample.running {
					t.Fatalf("the API has %q", got)
				}
				c.abort(why)
				if got, refused := api.has(); got != sample.afterAbort || len(refused) > 0 {
					t.Errorf("after an abort the API has %q, and does not take %q", got, refused)
				}
			})
		}
	}
}
