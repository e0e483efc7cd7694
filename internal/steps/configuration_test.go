package steps

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// kept is a kind that keeps what it was given last.
type kept struct {
	name   string
	source Source
	scripted
}

type keptConfig struct {
	Server  map[string]any `json:"server,omitempty"`
	Request map[string]any `json:"request,omitempty"`
	Poll    struct {
		Condition string `json:"condition,omitempty"`
	} `json:"poll,omitzero"`
	LogLines int `json:"logLines,omitempty"`
}

func (k *kept) Name() string { return k.name }

func (k *kept) Parse(source Source) (Step, error) {
	k.source = source
	var config keptConfig
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	for _, host := range source.PresetHosts {
		if strings.Contains(host, "/") {
			return nil, errors.New("hosts of the preset: " + host)
		}
	}
	switch {
	case k.name == "http" && config.Request["url"] == nil:
		return nil, errors.New("request.url: is missing")
	case config.Poll.Condition == "wrong":
		return nil, errors.New("poll.condition: no expression")
	}
	return &scriptedStep{&k.scripted}, nil
}

const smokePreset = `
defaults:
  timeout: 5m
  http:
    server:
      url: https://ci.example.com
      headers: {Authorization: {valueFrom: {secretKeyRef: {namespace: argo-rollouts, name: ci, key: token}}}}
    request: {url: /runs, method: POST, tags: [a, b]}
locked: [http.request.url, http.server.headers.Authorization, failurePolicy]
hosts: [ci.example.com]
namespaces: [demo]
`

func presetOf(t *testing.T, text string) *Preset {
	t.Helper()
	preset, err := ReadPreset([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return preset
}

// smoke looks up presets of which smoke is the only one.
func smoke(t *testing.T) func(string) (*Preset, error) {
	return func(name string) (*Preset, error) {
		if name != "smoke" {
			return nil, &PresetError{Cause: errors.New("there is no preset " + name)}
		}
		return presetOf(t, smokePreset), nil
	}
}

func rolloutIn(namespace string) *v1alpha1.Rollout {
	return &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app", UID: "u-1"}}
}

// A registration without a kind takes a configuration with one key that says what the step
// does, beside the common ones, over a preset that it may name.
func TestOneRegistrationForAll(t *testing.T) {
	for name, tc := range map[string]struct {
		config, namespace string
		allow             []string
		// kind and section are what is read, or problem is the error.
		kind, section, problem string
		waits                  bool
	}{
		"no preset":            {config: `{"id": "a", "http": {"request": {"url": "u"}}}`, kind: "http", section: `{"request":{"url":"u"}}`},
		"another kind":         {config: `{"job": {"logLines": 5}}`, kind: "job", section: `{"logLines":5}`},
		"two kinds":            {config: `{"job": {}, "http": {}}`, problem: "http and job: want one of the two"},
		"no kind":              {config: `{"timeout": "1m"}`, problem: "the step does not say what it does: want one of http, job, rollouts"},
		"nothing":              {config: ``, problem: "the step does not say what it does"},
		"keys without a kind":  {config: `{"request": {"url": "u"}}`, problem: `request: the key is not known: did you mean`},
		"an unknown key":       {config: `{"timout": "1m", "http": {}}`, problem: `timout: the key is not known: did you mean "timeout"?`},
		"an unknown kind":      {config: `{"htpp": {}}`, problem: `htpp: the key is not known: did you mean "http"? What a step does stands under http, job, rollouts`},
		"no object":            {config: `{"http": []}`, problem: "http: want an object"},
		"null":                 {config: `{"use": "smoke", "http": null}`, problem: "http: want an object"},
		"wrong below":          {config: `{"http": {"reqest": {}}}`, problem: `http.reqest: the key is not known: did you mean "request"?`},
		"missing below":        {config: `{"http": {}}`, problem: "http.request.url: is missing"},
		"a wrong setting":      {config: `{"retries": 99, "http": {"request": {"url": "u"}}}`, problem: "retries 99: want 0 to 10"},
		"a setting's type":     {config: `{"timeout": 5, "http": {}}`, problem: "timeout: want a duration such as 5m"},
		"a preset":             {config: `{"use": "smoke"}`, kind: "http", section: `{"request":{"method":"POST","tags":["a","b"],"url":"/runs"},"server":{"headers":{"Authorization":{"valueFrom":{"secretKeyRef":{"key":"token","name":"ci","namespace":"argo-rollouts"}}}},"url":"https://ci.example.com"}}`},
		"beside a preset":      {config: `{"use": "smoke", "http": {"request": {"tags": ["c"]}, "logLines": 3}}`, kind: "http", section: `"tags":["c"]`},
		"another than preset":  {config: `{"use": "smoke", "job": {}}`, problem: "job: the preset is for steps of kind http"},
		"what is locked":       {config: `{"use": "smoke", "http": {"request": {"url": "x"}}}`, problem: "http.request.url: the preset does not let a Rollout set this"},
		"a common lock":        {config: `{"use": "smoke", "failurePolicy": "Ignore"}`, problem: "failurePolicy: the preset does not let"},
		"through the server":   {config: `{"use": "smoke", "http": {"server": {"url": "https://evil"}}}`, problem: "http.server.url: the preset does not let"},
		"another's namespace":  {config: `{"use": "smoke"}`, namespace: "other", problem: "the preset is not for Rollouts of namespace other"},
		"no such preset":       {config: `{"use": "smok"}`, problem: "there is no preset smok", waits: true},
		"no name":              {config: `{"use": "../smoke"}`, problem: `use "../smoke": want the name of a preset`},
		"use of another type":  {config: `{"use": ["smoke"]}`, problem: "use: want a string"},
		"a kind of one's own":  {config: `{"job": {}}`, allow: []string{"http"}, problem: "job: a Rollout may name this kind of step by a preset alone (--allow-kind names http)"},
		"a kind of the preset": {config: `{"use": "smoke"}`, allow: []string{"job"}, kind: "http", section: `"url":"/runs"`},
		"a Secret elsewhere":   {config: `{"http": {"request": {"url": {"valueFrom": {"secretKeyRef": {"namespace": "admin"}}}}}}`, problem: "http.request.url.valueFrom.secretKeyRef.namespace: a Rollout refers to"},
		"a list":               {config: `[]`, problem: "config: want an object, not a list"},
		"too deep":             {config: `{"http": ` + strings.Repeat(`{"a":`, 120) + `1` + strings.Repeat(`}`, 121), problem: "config: more than 100 objects and lists in one another"},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := []Kind{&kept{name: "http"}, &kept{name: "job"}, &kept{name: "rollouts"}}
			namespace := "demo"
			if tc.namespace != "" {
				namespace = tc.namespace
			}
			c, err := Reader{Kinds: kinds, AllowKinds: tc.allow}.read(rolloutIn(namespace), json.RawMessage(tc.config), false, smoke(t))
			if tc.problem != "" {
				var unusable *PresetError
				if err == nil || !strings.HasPrefix(err.Error(), tc.problem) || errors.As(err, &unusable) != tc.waits {
					t.Errorf("error %v, want %s", err, tc.problem)
				}
				return
			}
			if err != nil || c.kind != tc.kind {
				t.Fatalf("%+v, %v", c, err)
			}
			source := Reader{Kinds: kinds}.kindOf(c.kind).(*kept).source
			if !strings.Contains(string(source.Config), tc.section) {
				t.Errorf("section %s, want %s", source.Config, tc.section)
			}
			if c.preset != source.Preset || (c.preset == "") != (string(source.Defaults) == "{}") {
				t.Errorf("preset %q, %q with defaults %s", c.preset, source.Preset, source.Defaults)
			}
			if c.preset == "smoke" && source.Settings.Timeout.Duration != 5*time.Minute {
				t.Errorf("settings %+v", source.Settings)
			}
		})
	}
}

// A registration with a kind takes its keys with and without the kind's name, in Rollouts and
// in presets.
func TestARegistrationOfOneKind(t *testing.T) {
	for name, tc := range map[string]struct{ kind, config, preset, section, problem string }{
		"flat":               {"http", `{"request": {"url": "u"}}`, ``, `{"request":{"url":"u"}}`, ""},
		"nested":             {"http", `{"http": {"request": {"url": "u"}}}`, ``, `{"request":{"url":"u"}}`, ""},
		"both":               {"job", `{"logLines": 5, "job": {"server": {"a": 1}}}`, ``, `{"logLines":5,"server":{"a":1}}`, ""},
		"twice":              {"http", `{"request": {}, "http": {"request": {}}}`, ``, "", "http.request: request is there twice"},
		"flat over flat":     {"http", `{"logLines": 1}`, `{defaults: {request: {url: u}}}`, `{"logLines":1,"request":{"url":"u"}}`, ""},
		"nested over flat":   {"http", `{"http": {"logLines": 1}}`, `{defaults: {request: {url: u}}}`, `{"logLines":1,"request":{"url":"u"}}`, ""},
		"flat over nested":   {"http", `{"logLines": 1}`, `{defaults: {http: {request: {url: u}}}}`, `{"logLines":1,"request":{"url":"u"}}`, ""},
		"a flat lock":        {"http", `{"http": {"request": {"url": "x"}}}`, `{defaults: {request: {url: u}}, locked: [request.url]}`, "", "http.request.url: the preset does not let"},
		"a nested lock":      {"http", `{"request": {"url": "x"}}`, `{defaults: {request: {url: u}}, locked: [http.request.url]}`, "", "http.request.url: the preset does not let"},
		"a lock of a job":    {"job", `{"logLines": 5}`, `{locked: [job]}`, "", "job: the preset does not let"},
		"a common lock":      {"job", `{"timeout": "1m"}`, `{locked: [timeout]}`, "", "timeout: the preset does not let"},
		"all":                {"job", `{"logLines": 5}`, `{locked: ["*"]}`, "", "job: the preset lets a Rollout set nothing"},
		"nothing":            {"job", ``, `{locked: ["*"]}`, `{}`, ""},
		"an error, flat":     {"http", `{"reqest": {}}`, ``, "", `http.reqest: the key is not known: did you mean "request"?`},
		"an error, nested":   {"http", `{"http": {"reqest": {}}}`, ``, "", "http.reqest: the key is not known"},
		"another kind's key": {"http", `{"job": {}}`, ``, "", "http.job: the key is not known"},
		"a preset's name":    {"http", `{"use": "smoke"}`, ``, "", "use: acme/x is registered for steps of kind http"},
		"namespaces":         {"job", ``, `{namespaces: [other]}`, "", "the preset is not for Rollouts of namespace demo"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := &kept{name: tc.kind}
			_, err := Reader{Name: "acme/x", Kind: kind}.read(rolloutIn("demo"), json.RawMessage(tc.config), false, func(string) (*Preset, error) {
				if tc.preset == "" {
					return &Preset{}, nil
				}
				return presetOf(t, tc.preset), nil
			})
			if tc.problem != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.problem) {
					t.Errorf("error %v, want %s", err, tc.problem)
				}
			} else if err != nil || string(kind.source.Config) != tc.section || kind.source.Preset != "" {
				t.Errorf("%s of preset %q, %v; want %s", kind.source.Config, kind.source.Preset, err, tc.section)
			}
		})
	}
}

// What is wrong with a preset whatever a Rollout says is found without one.
func TestCheckAPreset(t *testing.T) {
	reader := Reader{Kinds: []Kind{&kept{name: "http"}, &kept{name: "job"}}}
	for text, want := range map[string]string{
		smokePreset:                                           "",
		`{}`:                                                  "",
		`{defaults: {timeout: 5m}}`:                           "",
		`{defaults: {http: {}}}`:                              "", // request.url is left open
		`{defaults: {http: {reqest: {}}}}`:                    `defaults: http.reqest: the key is not known: did you mean "request"?`,
		`{defaults: {http: {request: x}}}`:                    "defaults: http.request: want an object",
		`{defaults: {request: {url: u}}}`:                     "defaults: request: the key is not known",
		`{defaults: {http: {}, job: {}}}`:                     "defaults: http and job: want one of the two",
		`{defaults: {retries: 99}}`:                           "defaults: retries 99",
		`{defaults: {use: other}}`:                            "defaults: use: a preset uses no other",
		`{locked: [request.url]}`:                             "locked: request.url: want a key such as http.request.url",
		`{locked: ["*", http, timeout, http.request.body]}`:   "",
		`{locked: [http.reqest.url]}`:                         `locked: http.reqest: the key is not known: did you mean "request"?`,
		`{locked: [http.poll.conditon]}`:                      `locked: http.poll.conditon: the key is not known: did you mean "condition"?`,
		`{locked: [timeout.x]}`:                               "locked: timeout.x: want a key such as",
		`{defaults: {http: {}}, hosts: ["https://ci.x/y"]}`:   "hosts of the preset",
		`{defaults: {http: {poll: {condition: wrong}}}}`:      "", // a Rollout can set it
		`{defaults: {http: {}}, namespaces: [team-a, other]}`: "",
	} {
		err := reader.Check(presetOf(t, text))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	flat := Reader{Kind: &kept{name: "http"}}
	for text, want := range map[string]string{
		`{defaults: {request: {url: u}}, locked: [request]}`: "",
		`{defaults: {reqest: {}}}`:                           "defaults: http.reqest: the key is not known",
		`{locked: [reqest]}`:                                 "locked: http.reqest: the key is not known",
	} {
		if err := flat.Check(presetOf(t, text)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is the admin's to mend holds a step up, what is the Rollout's fails it at once.
func TestWhoseFaultItIs(t *testing.T) {
	const wrong = `{defaults: {http: {request: {url: u}, poll: {condition: wrong}}}}`
	const long = `{defaults: {timeout: 20m, http: {request: {url: u}}}}`
	for name, tc := range map[string]struct {
		preset, config string
		waits          bool
		problem        string
	}{
		"the preset's expression":      {wrong, `{"use": "smoke"}`, true, "the preset is wrong: http.poll.condition: no expression"},
		"the Rollout's expression":     {`{defaults: {http: {request: {url: u}}}}`, `{"use": "smoke", "http": {"poll": {"condition": "wrong"}}}`, false, "http.poll.condition: no expression"},
		"in place of the preset's":     {`{defaults: {http: {request: {url: u}, poll: {condition: right}}}}`, `{"use": "smoke", "http": {"poll": {"condition": "wrong"}}}`, false, "http.poll.condition"},
		"what the preset leaves open":  {`{defaults: {http: {}}}`, `{"use": "smoke"}`, false, "http.request.url: is missing"},
		"the preset's timeout":         {long, `{"use": "smoke"}`, true, "the preset's timeout 20m0s"},
		"the Rollout's timeout":        {long, `{"use": "smoke", "timeout": "15m"}`, true, "the preset's timeout"},
		"the hosts":                    {`{defaults: {http: {request: {url: u}}}, hosts: ["a/b"]}`, `{"use": "smoke"}`, true, "the preset is wrong: hosts of the preset"},
		"a type in place of an object": {`{defaults: {http: {request: {url: u}}}}`, `{"use": "smoke", "http": {"request": "x"}}`, false, "http.request: want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the Rollout's timeout" {
				tc.waits, tc.problem = false, "" // its timeout is for the frame to refuse
			}
			reported := ""
			_, err := Reader{Kinds: []Kind{&kept{name: "http"}}}.read(rolloutIn("demo"), json.RawMessage(tc.config), false, func(string) (*Preset, error) {
				preset := presetOf(t, tc.preset)
				preset.Report = func(err error) { reported = err.Error() }
				return preset, nil
			})
			var unusable *PresetError
			if isWrong := strings.HasPrefix(tc.problem, "the preset is wrong"); isWrong != (reported != "") {
				t.Errorf("the admin is told %q", reported)
			}
			if tc.problem == "" && err == nil {
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.problem) || errors.As(err, &unusable) != tc.waits {
				t.Errorf("error %v, want %s", err, tc.problem)
			}
		})
	}
}

// changing is a source of presets that a test changes.
type changing struct {
	preset *Preset
	err    error
	last   *Preset
	gone   bool
}

func (s *changing) Preset(context.Context, string) (*Preset, error) {
	if s.err != nil {
		return nil, &PresetError{Cause: s.err, Last: s.last, Gone: s.gone}
	}
	s.last = s.preset
	return s.preset, nil
}

// newKept returns a host of a registration without a kind.
func newKept(t *testing.T, config string, source *changing) (*host, *kept) {
	h := newHost(t, &scripted{}, config)
	kind := &kept{name: "http"}
	h.plugin.opts.Kind, h.plugin.opts.Kinds, h.plugin.opts.Presets = nil, []Kind{kind, &kept{name: "job"}}, source
	return h, kind
}

// While a preset is missing or wrong, what the Rollout says itself counts unless the preset, as
// it could last be used, locks it: a gate must not open by breaking.
func TestWhatCountsWhileAPresetIsBroken(t *testing.T) {
	open := `{defaults: {http: {request: {url: u}}}}`
	for name, tc := range map[string]struct {
		last, config string
		phase        types.StepPhase
		words        string
	}{
		"never seen":                {"", `{"use": "smoke"}`, types.PhaseFailed, "timed out after 8m0s"},
		"never seen, a timeout":     {"", `{"use": "smoke", "timeout": "2m"}`, types.PhaseFailed, "timed out after 2m0s"},
		"never seen, Ignore":        {"", `{"use": "smoke", "timeout": "2m", "failurePolicy": "Ignore"}`, types.PhaseFailed, "timed out after 2m0s"},
		"Ignore is open":            {open, `{"use": "smoke", "timeout": "2m", "failurePolicy": "Ignore"}`, types.PhaseSuccessful, "ignored"},
		"Ignore is locked":          {`{locked: [failurePolicy]}`, `{"use": "smoke", "timeout": "2m", "failurePolicy": "Ignore"}`, types.PhaseFailed, "timed out after 2m0s"},
		"all is locked":             {`{locked: ["*"]}`, `{"use": "smoke", "timeout": "2m", "failurePolicy": "Ignore"}`, types.PhaseFailed, "timed out after 8m0s"},
		"the timeout is locked":     {`{locked: [timeout]}`, `{"use": "smoke", "timeout": "2m"}`, types.PhaseFailed, "timed out after 8m0s"},
		"another namespace's":       {`{namespaces: [other]}`, `{"use": "smoke"}`, types.PhaseFailed, "not for Rollouts of namespace demo"},
		"the Rollout's is wrong":    {open, `{"use": "smoke", "retries": 99}`, types.PhaseFailed, "retries 99"},
		"the preset's Ignore alone": {`{defaults: {failurePolicy: Ignore, http: {request: {url: u}}}}`, `{"use": "smoke"}`, types.PhaseFailed, "timed out after 8m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			source := &changing{err: errors.New(`preset ConfigMap argo-rollouts/smoke: the key is not known`)}
			if tc.last != "" {
				source.last = presetOf(t, tc.last)
			}
			h, kind := newKept(t, tc.config, source)
			h.until(100)
			h.require(tc.phase, tc.words)
			if len(kind.started) > 0 {
				t.Errorf("%d starts", len(kind.started))
			}
		})
	}
}

// A step waits, with an Event, for a preset with a typo to be mended.
func TestATypoInAPreset(t *testing.T) {
	source := &changing{err: errors.New(`preset ConfigMap argo-rollouts/smoke: data["preset.yaml"]: default: the key is not known`)}
	h, kind := newKept(t, `{"use": "smoke"}`, source)
	h.until(3)
	h.require(types.PhaseRunning, "smoke: ", "default: the key is not known")
	if !h.events.has("smoke: ", "default: the key is not known") {
		t.Errorf("Events %q", h.events.lines)
	}
	source.err, source.preset = nil, presetOf(t, smokePreset)
	kind.poll = after(0, Successful)
	h.until(10)
	h.require(types.PhaseSuccessful)
}

// Work that has begun goes on with its preset as it was, whatever becomes of that: to its end,
// and to its cancel. It starts nothing more.
func TestAPresetThatChangesUnderWork(t *testing.T) {
	for name, change := range map[string]func(*changing){
		"deleted, renamed or wrong": func(s *changing) { s.err = errors.New("there is no preset smoke") },
		"locks":                     func(s *changing) { s.preset = &Preset{Locked: []string{"*"}, Defaults: s.preset.Defaults} },
		"for another namespace":     func(s *changing) { s.preset = &Preset{Namespaces: []string{"other"}, Defaults: s.preset.Defaults} },
		"of another kind":           func(s *changing) { s.preset = &Preset{Defaults: map[string]any{"job": map[string]any{}}} },
		"of a longer timeout": func(s *changing) {
			s.preset = &Preset{Defaults: map[string]any{"timeout": "1h", "http": s.preset.Defaults["http"]}}
		},
		"disabled": func(s *changing) { s.preset = &Preset{Disabled: true, Defaults: s.preset.Defaults} },
	} {
		t.Run(name, func(t *testing.T) {
			source := &changing{preset: presetOf(t, smokePreset)}
			h, kind := newKept(t, `{"use": "smoke", "retries": 1}`, source)
			h.until(2)
			h.require(types.PhaseRunning, "smoke: ")
			change(source)
			h.run()
			h.require(types.PhaseRunning, "it runs")
			h.abort()
			if len(kind.started) != 1 || len(kind.cancelled) != 1 {
				t.Errorf("%d starts, %d cancels", len(kind.started), len(kind.cancelled))
			}
		})
	}
}

// A disabled preset lets steps pass that have not begun, with words, even those that it would
// not suit. An abort later on finds nothing to undo.
func TestADisabledPreset(t *testing.T) {
	for _, config := range []string{`{"use": "smoke"}`, `{"use": "smoke", "http": {"request": 1}}`} {
		preset := presetOf(t, smokePreset)
		preset.Disabled = true
		h, kind := newKept(t, config, &changing{preset: preset})
		h.until(3)
		h.require(types.PhaseSuccessful, "smoke: nothing was started: the preset is disabled")
		h.abort()
		if len(kind.started) > 0 || len(kind.undone) > 0 {
			t.Errorf("%d starts, %d undone", len(kind.started), len(kind.undone))
		}
	}
}

// A process that has begun after the work knows the preset as it last could be used, if that was
// right as the process began: then it polls, cancels and undoes. Else the work waits, and so do
// its cancel and its undo.
func TestAPresetThatIsWrongAfterARestart(t *testing.T) {
	for name, tc := range map[string]struct {
		last, gone bool
		run        string
		cleanUp    string
	}{
		"wrong since":        {true, false, "it runs", "the work was cancelled"},
		"wrong before":       {false, false, "its preset cannot be used, retrying: a typo", "cancelling the work has failed, retrying for 5m0s: the step's configuration cannot be used: a typo; an Event tells how it ends"},
		"gone since":         {true, true, "its preset cannot be used, retrying: a typo", "cancelling the work has failed, retrying for 5m0s"},
		"done, wrong since":  {true, false, "", "the work was undone"},
		"done, wrong before": {false, false, "", "undoing the work has failed, retrying for 5m0s: the step's configuration cannot be used: a typo"},
	} {
		t.Run(name, func(t *testing.T) {
			source := &changing{preset: presetOf(t, smokePreset)}
			h, kind := newKept(t, `{"use": "smoke"}`, source)
			if tc.run == "" {
				kind.poll = after(0, Successful)
			}
			h.until(4)
			before := h.plugin.opts
			h.restart()
			h.plugin.opts = before
			source.err, source.gone = errors.New("a typo"), tc.gone
			if source.last = nil; tc.last {
				source.last = source.preset
			}
			if tc.run != "" {
				h.run()
				h.require(types.PhaseRunning, tc.run)
			}
			if result := h.abort(); !strings.Contains(result.Message, tc.cleanUp) {
				t.Errorf("abort: %s, want %s", result.Message, tc.cleanUp)
			}
		})
	}
}

// A hole that an admin closes is closed for what begins after that, and a former preset does
// not come back for a step that this process does not know.
func TestAHoleIsClosed(t *testing.T) {
	source := &changing{preset: presetOf(t, `{defaults: {http: {request: {url: u}}}}`)}
	h, kind := newKept(t, `{"use": "smoke", "http": {"server": {"url": "https://evil"}}}`, source)
	h.until(2)
	source.preset = presetOf(t, `{defaults: {http: {request: {url: u}}}, locked: [http.request]}`)
	h.run()
	h.require(types.PhaseRunning, "it runs")
	h.ro.UID = "u-2" // a status that was copied to another Rollout
	polls := kind.polled.Load()
	h.run()
	h.require(types.PhaseRunning, "http.server: the preset does not let a Rollout set this")
	h.status = nil
	h.run()
	h.require(types.PhaseFailed, "http.server: the preset does not let a Rollout set this")
	if kind.polled.Load() != polls || len(kind.started) != 1 {
		t.Errorf("%d polls more, %d starts", kind.polled.Load()-polls, len(kind.started))
	}
}
