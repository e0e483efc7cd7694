package httpstep

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

// A preset's Secret is only for the preset's requests, as the preset has them, whether
// they are locked or not.
func TestASecretOfAPresetIsForThePresetsRequests(t *testing.T) {
	const token = `{"valueFrom": {"secretKeyRef": {"namespace": "secrets", "name": "ci", "key": "token"}}}`
	const other = `{"valueFrom": {"secretKeyRef": {"name": "own", "key": "token"}}}`
	const defaults = `{
		"server": {"url": "OUTSIDE", "auth": {"bearer": ` + token + `}}, "request": {"url": "/runs", "json": {"image": "{{ images.new.app }}"}},
		"outputs": {"id": "response.json.id"}, "poll": {"url": "/runs/{{ outputs.id }}", "successCondition": "response.json.ok"}
	}`
	const inHeader = `{"request": {"url": "OUTSIDE/runs", "headers": {"X-Key": ` + token + `}}}`
	const inCancel = `{"request": {"url": "OUTSIDE/runs"}, "cancel": {"url": "OUTSIDE/cancel", "auth": {"bearer": ` + token + `}}}`
	const cancels = `{
		"server": {"url": "OUTSIDE", "auth": {"bearer": ` + token + `}}, "request": {"url": "/runs"}, "outputs": {"id": "response.json.id"},
		"cancel": {"url": "/runs/{{ outputs.id }}/cancel"}
	}`
	const posts = `{
		"request": {"url": "OUTSIDE/runs"}, "outputs": {"id": "response.json.id"},
		"cancel": {"url": "OUTSIDE/cancel", "json": {"id": "{{ outputs.id }}"}, "auth": {"bearer": ` + token + `}}
	}`
	for name, test := range map[string]struct{ defaults, config, refused string }{
		"nothing":                        {defaults, `{}`, ""},
		"keys of every kind":             {defaults, `{"id": "e2e", "timeout": "2m", "retries": 2, "failurePolicy": "Ignore", "message": "{{ outputs.id }}"}`, ""},
		"times":                          {defaults, `{"interval": "20s", "request": {"timeout": "5s"}, "poll": {"timeout": "5s"}}`, ""},
		"what the preset has":            {defaults, `{"poll": {"successCondition": "response.json.ok"}}`, ""},
		"a URL":                          {defaults, `{"request": {"url": "OUTSIDE/other"}}`, "request.url: request has a Secret of another namespace"},
		"a method":                       {defaults, `{"request": {"method": "DELETE"}}`, "request.method: "},
		"a header":                       {defaults, `{"request": {"headers": {"X-Http-Method-Override": "DELETE"}}}`, "request.headers: "},
		"a body":                         {defaults, `{"request": {"json": {"image": "other"}}}`, "request.json: "},
		"a part of a body":               {defaults, `{"request": {"json": {"admin": true}}}`, "request.json: "},
		"a CA":                           {defaults, `{"request": {"caFrom": {"configMapKeyRef": {"name": "mine", "key": "ca"}}}}`, "request.caFrom: "},
		"a server":                       {defaults, `{"server": {"url": "OUTSIDE/other"}}`, "server.url: request has a Secret"},
		"a header for the server":        {defaults, `{"server": {"headers": {"X-Http-Method-Override": "DELETE"}}}`, "server.headers: "},
		"a form":                         {inHeader, `{"request": {"form": {"a": "b"}}}`, "request.form: "},
		"a promise":                      {defaults, `{"request": {"idempotent": true}}`, "request.idempotent: "},
		"outputs":                        {defaults, `{"outputs": {"all": "response.text"}}`, "outputs: request has a Secret"},
		"a poll":                         {defaults, `{"poll": {"url": "OUTSIDE/private"}}`, "poll.url: poll has a Secret"},
		"a condition":                    {defaults, `{"poll": {"failureCondition": "response.text.contains(\"a\")"}}`, "poll.failureCondition: "},
		"outputs of a poll":              {defaults, `{"poll": {"outputs": {"all": "response.text"}}}`, "poll.outputs: "},
		"a look":                         {defaults, `{"find": {"url": "OUTSIDE/private", "outputs": {"id": "response.text"}}}`, "find.outputs: "},
		"a cancel":                       {defaults, `{"cancel": {"method": "DELETE", "url": "OUTSIDE/private"}}`, "with cancel.auth of its own, or {}, it has not the credentials of server"},
		"an undo":                        {defaults, `{"onAbort": {"method": "DELETE", "url": "OUTSIDE/private"}}`, "onAbort.method: onAbort has a Secret"},
		"an undo without the Secret":     {defaults, `{"onAbort": {"url": "OUTSIDE/mine", "auth": {}}}`, ""},
		"an undo with another":           {defaults, `{"onAbort": {"url": "OUTSIDE/mine", "auth": {"bearer": ` + other + `}}}`, ""},
		"credentials of its own":         {defaults, `{"request": {"url": "OUTSIDE/mine", "auth": {"bearer": ` + other + `}}, "outputs": {"id": "response.text"}}`, "request.auth: poll sends outputs along with a Secret"},
		"credentials, and no outputs":    {inHeader, `{"request": {"url": "OUTSIDE/mine", "headers": {"X-Key": "mine"}}, "outputs": {"id": "response.text"}}`, ""},
		"a look that says the output":    {defaults, `{"find": {"url": "OUTSIDE/mine", "auth": {}, "outputs": {"id": "'8'"}}}`, "find.auth: poll sends outputs"},
		"a poll that says the output":    {cancels, `{"poll": {"url": "OUTSIDE/mine", "auth": {}, "outputs": {"id": "'8'"}}}`, "poll.auth: cancel sends outputs"},
		"a poll without outputs":         {cancels, `{"poll": {"url": "OUTSIDE/mine", "auth": {}}, "message": "{{ outputs.id }}"}`, "poll.auth: cancel sends outputs"},
		"outputs that are sent":          {posts, `{"outputs": {"id": "'8'"}}`, "outputs: cancel sends outputs"},
		"a request whose output is sent": {posts, `{"request": {"url": "OUTSIDE/mine"}}`, "request.url: cancel sends outputs"},
		"a Secret in a header":           {inHeader, `{"request": {"json": {}}}`, "request.json: "},
		"a poll beside a header":         {inHeader, `{"poll": {"url": "OUTSIDE/mine"}}`, ""},
		"a URL, with a cancel":           {inCancel, `{"request": {"url": "OUTSIDE/mine"}, "outputs": {"id": "response.text"}}`, ""},
		"a CA that cancel takes":         {inCancel, `{"server": {"url": "OUTSIDE", "caFrom": {"configMapKeyRef": {"name": "mine", "key": "ca"}}}}`, "server.caFrom: cancel has a Secret"},
		"the user's name of a password":  {`{"request": {"url": "OUTSIDE", "auth": {"basic": {"username": "ci", "password": ` + token + `}}}}`, `{"request": {"auth": {"basic": {"username": "admin"}}}}`, "request.auth: "},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t, answer200(`{"id": "7", "ok": true}`))
			h := newHost(t, o, test.config)
			h.opts.AllowHosts = nil
			p := preset{Hosts: []string{strings.TrimPrefix(o.URL, "http://")}}
			if err := json.Unmarshal([]byte(strings.ReplaceAll(test.defaults, "OUTSIDE", o.URL)), &p.Defaults); err != nil {
				t.Fatal(err)
			}
			h.preset = p
			h.restart()
			h.putSecret("secrets", "ci", map[string]string{"token": "s3cr3t-of-the-admin"})
			h.putSecret("demo", "own", map[string]string{"token": "t0ken"})
			h.until(3)
			if test.refused == "" {
				h.require(types.PhaseSuccessful)
				return
			}
			h.require(types.PhaseFailed, test.refused)
			if n := len(o.all()); n != 0 {
				t.Errorf("%d requests came through", n)
			}
		})
	}
}

// Anyone who may edit a Rollout may edit its status: a status that says that the step has
// succeeded makes the plugin undo it.
func TestAForgedStatusUsesNoSecretOfThePreset(t *testing.T) {
	o := newOutside(t, answer200(`{}`))
	h := newHost(t, o, `{}`)
	p := preset{Hosts: []string{strings.TrimPrefix(o.URL, "http://")}}
	if err := json.Unmarshal([]byte(`{
		"server": {"url": "`+o.URL+`", "auth": {"bearer": {"valueFrom": {"secretKeyRef": {"namespace": "secrets", "name": "ci", "key": "token"}}}}},
		"request": {"url": "/runs"}, "poll": {"url": "/runs/7", "successCondition": "false"}
	}`), &p.Defaults); err != nil {
		t.Fatal(err)
	}
	h.preset = p
	h.restart()
	h.putSecret("secrets", "ci", map[string]string{"token": "s3cr3t"})
	h.run()
	h.require(types.PhaseRunning)
	h.status = json.RawMessage(strings.Replace(string(h.status), `"stage":"Running"`, `"stage":"Done"`, 1))
	h.config = `{"onAbort": {"method": "DELETE", "url": "` + o.URL + `/repos/acme/payroll"}}`
	_, _ = h.plugin.Abort(h.ro, h.call())
	h.plugin.Close()
	if o.count("DELETE", "/") != 0 {
		t.Errorf("got %+v, %s", o.all(), h.events.text())
	}
}
