package httpstep

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// values is an object of an answer.
type values = map[string]any

var slackTime = regexp.MustCompile(`^\d{10}\.\d{6}$`)

// newSlack is Slack's Web API with the methods chat.postMessage and chat.update. Its state are
// the messages, each with all texts that it has had.
func newSlack() *standIn {
	s := &standIn{}
	s.take = func(c apiCall) (int, any) {
		fail := func(code string) (int, any) { return 200, refusal(fmt.Sprintf(`{"ok": false, "error": %q}`, code)) }
		var body struct{ Channel, TS, Text string }
		err := c.read(&body)
		method, isMethod := strings.CutPrefix(c.URL.Path, "/api/chat.")
		var n int
		switch {
		case !isMethod || c.Method != http.MethodPost || method != "postMessage" && method != "update":
			return fail("unknown_method")
		case !c.bearer("xoxb-t0ken"):
			return fail("invalid_auth")
		case err != nil:
			return fail("invalid_arguments")
		case body.Channel != "C0123456789":
			return fail("channel_not_found")
		case body.Text == "":
			return fail("no_text")
		case method == "postMessage" && body.TS != "":
			return fail("invalid_arguments")
		case method == "postMessage":
			s.state = append(s.state, body.Text)
			n = len(s.state)
		case !slackTime.MatchString(body.TS):
			return fail("invalid_arguments")
		default:
			if _, err := fmt.Sscanf(body.TS, "1700000000.%06d", &n); err != nil || n < 1 || n > len(s.state) {
				return fail("message_not_found")
			}
			s.state[n-1] += " | " + body.Text
		}
		return 200, values{"ok": true, "channel": body.Channel, "ts": fmt.Sprintf("1700000000.%06d", n)}
	}
	return s
}

// newTeams is a workflow of Teams, whose state are the texts of the cards.
func newTeams() *standIn {
	type element struct {
		Type, Text, Size, Weight, Color string
		Wrap, IsSubtle                  bool
	}
	var body struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  *string `json:"contentUrl"`
			Content     struct {
				Schema        string `json:"$schema"`
				Type, Version string
				Body          []element
			}
		}
	}
	s := &standIn{}
	s.take = func(c apiCall) (int, any) {
		message := body
		err := c.read(&message)
		switch {
		case !c.is(http.MethodPost, "/workflows/1/triggers/manual/paths/invoke"):
			return 404, values{"error": values{"code": "WorkflowNotFound"}}
		case c.query.Get("sig") != "s1gnature-of-the-url" || c.Header.Get("Authorization") != "":
			return 401, values{"error": values{"code": "DirectApiAuthorizationRequired"}}
		case err != nil || message.Type != "message" || len(message.Attachments) == 0 || len(c.body) > 28<<10:
			return 400, values{"error": fmt.Sprint(err)}
		}
		for _, a := range message.Attachments {
			if a.ContentType != "application/vnd.microsoft.card.adaptive" || a.Content.Type != "AdaptiveCard" || !strings.HasPrefix(a.Content.Version, "1.") || len(a.Content.Body) == 0 {
				return 400, values{"error": "no Adaptive Card"}
			}
			for _, e := range a.Content.Body {
				if e.Type != "TextBlock" || e.Text == "" {
					return 400, values{"error": "want text blocks"}
				}
				s.state = append(s.state, e.Text)
			}
		}
		return 202, nil
	}
	return s
}

// newGrafana is Grafana's API of annotations, which are its state.
func newGrafana() *standIn {
	s := &standIn{}
	s.take = func(c apiCall) (int, any) {
		var body struct {
			DashboardUID  string `json:"dashboardUID"`
			PanelID       int64  `json:"panelId"`
			Time, TimeEnd int64
			Tags          []string
			Text          string
		}
		switch err := c.read(&body); {
		case !c.bearer("glsa_t0ken"):
			return 401, values{"message": "Invalid API key"}
		case !c.is(http.MethodPost, "/api/annotations"):
			return 404, values{"message": "Not found"}
		case err != nil || body.Text == "" || slices.Contains(body.Tags, ""):
			return 400, values{"message": "bad request data"}
		}
		s.state = append(s.state, strings.Join(body.Tags, ",")+": "+body.Text)
		return 200, values{"message": "Annotation added", "id": len(s.state)}
	}
	return s
}

// newJIRA is JIRA with an issue in a status. Its state are the transitions that were made: 31
// from Ready to Deploying, 41 back.
func newJIRA(status string) *standIn {
	s := &standIn{}
	s.take = func(c apiCall) (int, any) {
		const issue = "/rest/api/3/issue/SHOP-1"
		user, token, _ := c.BasicAuth()
		switch {
		case user != "rollouts@example.com" || token != "j1ra-t0ken":
			return 401, values{"errorMessages": []string{"You are not authenticated."}}
		case c.is(http.MethodGet, issue):
			return 200, values{"key": "SHOP-1", "fields": values{"status": values{"name": status}}}
		case !c.is(http.MethodPost, issue+"/transitions"):
			return 404, values{"errorMessages": []string{"Issue does not exist"}}
		}
		var body struct {
			Transition struct{ ID string }
			Fields     values
		}
		err := c.read(&body)
		made := status + " " + body.Transition.ID
		if err != nil || made != "Ready 31" && made != "Deploying 41" {
			return 400, values{"errorMessages": []string{"It is not on this screen: " + made}}
		}
		status = map[string]string{"Ready 31": "Deploying", "Deploying 41": "Ready"}[made]
		s.state = append(s.state, made+" "+status)
		return 204, nil
	}
	return s
}

// newPagerDuty is PagerDuty's Events API v2. Its state are the incidents.
func newPagerDuty() *standIn {
	s, open := &standIn{}, map[string]int{}
	s.take = func(c apiCall) (int, any) {
		var body struct {
			RoutingKey  string `json:"routing_key"`
			EventAction string `json:"event_action"`
			DedupKey    string `json:"dedup_key"`
			Client      string
			ClientURL   string `json:"client_url"`
			Links       []struct{ Href, Text string }
			Payload     *struct {
				Summary, Source, Severity, Component, Group, Class string
				CustomDetails                                      values `json:"custom_details"`
			}
		}
		err := c.read(&body)
		p, n := body.Payload, open[body.DedupKey]
		isTrigger := body.EventAction == "trigger"
		switch {
		case !c.is(http.MethodPost, "/v2/enqueue"):
			return 404, nil
		case err != nil || body.RoutingKey != "0123456789abcdef0123456789abcdef" || len(body.DedupKey) > 255,
			!isTrigger && (body.EventAction != "resolve" || body.DedupKey == ""),
			isTrigger && (p == nil || p.Summary == "" || len(p.Summary) > 1024 || p.Source == "" || !slices.Contains([]string{"critical", "error", "warning", "info"}, p.Severity)):
			return 400, values{"status": "invalid event", "message": "Event object is invalid", "errors": []string{fmt.Sprint(err)}}
		case isTrigger && n == 0:
			s.state = append(s.state, p.Severity+": "+p.Summary+": open")
			open[body.DedupKey] = len(s.state)
		case !isTrigger && n > 0:
			s.state[n-1] = strings.Replace(s.state[n-1], ": open", ": resolved", 1)
			delete(open, body.DedupKey)
		}
		return 202, values{"status": "success", "message": "Event processed", "dedup_key": body.DedupKey}
	}
	return s
}

// newRundeck is Rundeck with a job. Its state are the runs: one that is asked after a second
// time has ended with a status.
func newRundeck(ends string) *standIn {
	type run struct {
		ID        int    `json:"id"`
		Permalink string `json:"permalink"`
		Status    string `json:"status"`
		Job       values `json:"job"`
	}
	s, runs, asked := &standIn{}, []*run{}, 0
	s.take = func(c apiCall) (int, any) {
		const job = "/api/40/job/3b6c19f6-41ee-475f-8fd0-8f1a26f27a9a"
		id, abort := strings.CutSuffix(strings.TrimPrefix(c.URL.Path, "/api/40/execution/"), "/abort")
		n := slices.IndexFunc(runs, func(r *run) bool { return id == fmt.Sprint(r.ID) })
		defer func() {
			s.state = nil
			for _, r := range runs {
				s.state = append(s.state, r.Status)
			}
		}()
		switch {
		case c.Header.Get("X-Rundeck-Auth-Token") != "rundeck-t0ken" || c.Header.Get("Accept") != "application/json":
			return 403, values{"error": true, "errorCode": "api.error.item.unauthorized"}
		case c.is(http.MethodGet, job+"/executions"):
			return 200, values{"executions": runs}
		case c.is(http.MethodPost, job+"/run"):
			var body struct{ Options map[string]string }
			if err := c.read(&body); err != nil || len(body.Options["key"]) != 32 || body.Options["image"] == "" || body.Options["namespace"] != "demo" || len(body.Options) != 3 {
				return 400, values{"error": true, "errorCode": "api.error.job.options-invalid"}
			}
			runs = append(runs, &run{len(runs) + 1, "https://rundeck.example.com/show", "running", values{"options": body.Options}})
			return 200, runs[len(runs)-1]
		case n >= 0 && c.Method == http.MethodGet && !abort:
			if asked++; asked > 1 {
				runs[n].Status = ends
			}
			return 200, runs[n]
		case n >= 0 && c.Method == http.MethodPost && abort:
			runs[n].Status = "aborted"
			return 200, values{"abort": values{"status": "pending"}}
		}
		return 404, values{"error": true, "errorCode": "api.error.item.doesnotexist"}
	}
	return s
}

// newWarmUps is an API that honours Idempotency-Key. Its state is the work that was done.
func newWarmUps() *standIn {
	s, done := &standIn{}, map[string]bool{}
	s.take = func(c apiCall) (int, any) {
		var body struct{ Service, Image string }
		err, key := c.read(&body), c.Header.Get("Idempotency-Key")
		switch {
		case !c.bearer("api-t0ken"):
			return 401, nil
		case !c.is(http.MethodPost, "/v1/warm-ups"):
			return 404, nil
		case err != nil || key == "" || body.Image == "":
			return 400, nil
		case !done[key]:
			done[key] = true
			s.state = append(s.state, body.Service)
		}
		return 201, values{"entries": 1200}
	}
	return s
}

// newApprovals is a system in which changes are approved, which are its state: one that is
// asked after a second time has been decided.
func newApprovals(decision string) *standIn {
	s, keys, asked := &standIn{}, []string{}, 0
	s.take = func(c apiCall) (int, any) {
		key, isChange := strings.CutPrefix(c.URL.Path, "/api/changes/")
		n := slices.Index(keys, key)
		switch {
		case !c.bearer("approvals-t0ken"):
			return 401, nil
		case !isChange || len(key) != 32 || n < 0 && c.Method != http.MethodPut:
			return 404, nil
		case c.Method == http.MethodDelete:
			s.state[n] = "withdrawn"
			return 204, nil
		case c.Method == http.MethodPut:
			var body struct{ Title, Image, Team string }
			if err := c.read(&body); err != nil || body.Title == "" || body.Image == "" || body.Team == "" {
				return 400, nil
			}
			if n < 0 {
				n, keys, s.state = len(keys), append(keys, key), append(s.state, "waiting")
			}
		default:
			if asked++; asked > 1 {
				s.state[n] = decision
			}
		}
		return 200, values{"state": s.state[n], "by": "ann", "url": "https://approvals.example.com/changes/" + key}
	}
	return s
}
