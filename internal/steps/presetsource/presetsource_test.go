package presetsource

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const right, other, broken = "hosts: [a.example.com]", "hosts: [b.example.com]", "host: [a.example.com]"

// setup is a source of presets beside an API server.
type setup struct {
	*Source
	t      *testing.T
	server *apiservertest.Server
	log    *bytes.Buffer

	mu     sync.Mutex
	clock  time.Time
	events []string
}

// newSetup returns a Source of the ConfigMap with a name, or of the presets that steps name.
func newSetup(t *testing.T, name string) *setup {
	s := &setup{t: t, server: apiservertest.New(t), clock: time.Unix(1000, 0), log: &bytes.Buffer{}}
	s.Source = New(Options{
		Connect: s.server.Config, Namespace: "argo-rollouts", Name: name, Events: s,
		Check: func(p *steps.Preset) error {
			if p.Defaults["panic"] != nil {
				panic("in Parse")
			}
			if p.Defaults["wrong"] != nil {
				return errors.New("defaults: wrong: the key is not known")
			}
			return nil
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: s.log}),
	})
	s.now = func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.clock
	}
	t.Cleanup(s.Close)
	return s
}

func (s *setup) Warn(about *corev1.ObjectReference, reason, topic, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := strings.Join([]string{about.Kind, about.Namespace + "/" + about.Name, reason, topic, message}, " ")
	if !slices.Contains(s.events, line) { // as rolloutsplugin.Events does
		s.events = append(s.events, line)
	}
}

func (s *setup) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// put stores a ConfigMap, with the label of presets unless the value of that is empty.
func (s *setup) put(name, label string, data map[string]any) {
	metadata := map[string]any{"namespace": "argo-rollouts", "name": name}
	if label != "" {
		metadata["labels"] = map[string]any{steps.PresetLabel: label}
	}
	s.server.PutObject("configmaps", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

func preset(text string) map[string]any { return map[string]any{steps.PresetKey: text} }

// get asks for a preset within a second.
func (s *setup) get(name string) (*steps.Preset, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	return s.Preset(ctx, name)
}

// eventually requires that a preset comes to have a host.
func (s *setup) eventually(name, host string) {
	s.t.Helper()
	s.until(name+" has the host "+host, func() bool {
		got, err := s.get(name)
		return err == nil && slices.Equal(got.Hosts, []string{host})
	})
}

// unusable requires that a preset comes to be unusable, and returns what it last was.
func (s *setup) unusable(name string, words ...string) *steps.Preset {
	s.t.Helper()
	var last *steps.Preset
	s.until(name+" cannot be used: "+strings.Join(words, ", "), func() bool {
		_, err := s.get(name)
		var unusable *steps.PresetError
		if !errors.As(err, &unusable) {
			return false
		}
		last = unusable.Last
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(err.Error(), word) })
	})
	return last
}

func (s *setup) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			_, err := s.get("smoke")
			s.t.Fatalf("not: %s (smoke: %v)", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// reads returns how many reads there were since it was last called.
func (s *setup) reads() int {
	return len(slices.DeleteFunc(s.server.Requests(), func(r apiservertest.Request) bool { return r.Verb != "get" }))
}

// One watch shows all presets with the label: as they are made, changed, broken, mended,
// renamed and deleted, without a request for each.
func TestPresetsAreWatched(t *testing.T) {
	s := newSetup(t, "")
	if requests := s.server.Requests(); len(requests) > 0 {
		t.Errorf("before the first preset is asked for: %v", requests)
	}
	s.put("smoke", "true", preset(right))
	s.put("legacy", "", preset(right))
	s.eventually("smoke", "a.example.com")
	if last := s.unusable("legacy", "there is no preset legacy", `argo-rollouts/legacy with the label rollouts.kedify.io/step-preset: "true"`); last != nil {
		t.Errorf("last %+v", last)
	}
	s.put("second", "true", preset(other))
	s.eventually("second", "b.example.com")
	s.put("smoke", "true", preset(other))
	s.eventually("smoke", "b.example.com")
	for _, wrong := range []map[string]any{preset(broken), preset("defaults: {wrong: 1}"), preset("defaults: {panic: 1}"), {"preset.yml": right}, preset("a: b: c")} {
		s.put("smoke", "true", wrong)
		if last := s.unusable("smoke", "preset ConfigMap argo-rollouts/smoke"); last == nil || last.Hosts[0] != "b.example.com" {
			t.Errorf("%v: last %+v", wrong, last)
		}
	}
	s.eventually("second", "b.example.com") // another's fault does not touch it
	s.put("smoke", "true", preset(right))
	s.eventually("smoke", "a.example.com")
	s.server.Delete("configmaps", "argo-rollouts", "smoke")
	if last := s.unusable("smoke", "there is no preset smoke"); last == nil || last.Hosts[0] != "a.example.com" {
		t.Errorf("last %+v", last)
	}
	s.put("renamed", "true", preset(right))
	s.eventually("renamed", "a.example.com")
	s.put("second", "", preset(other)) // the watch answers that it is deleted
	s.unusable("second", "there is no preset second")
	s.put("second", "true", preset(other))
	s.eventually("second", "b.example.com")
	watches := 0
	for _, request := range s.server.Requests() {
		if request.Verb == "get" && request.Name != "smoke" { // smoke was read before the watch was there
			t.Errorf("a request beside the watch: %s", request)
		}
		if request.Namespace != "argo-rollouts" || request.Resource != "configmaps" {
			t.Errorf("a request for %s", request)
		}
		if request.Verb == "watch" {
			watches++
		}
	}
	if watches != 1 {
		t.Errorf("%d watches", watches)
	}
}

// A ConfigMap that becomes wrong says so itself, once for each state of it.
func TestAnEventOnTheConfigMap(t *testing.T) {
	s := newSetup(t, "")
	s.put("smoke", "true", preset(right))
	s.eventually("smoke", "a.example.com")
	told := func(n int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.events) == n
		}
	}
	s.put("smoke", "true", preset(broken)) // no step asks
	s.until("an Event", told(1))
	if want := []string{"ConfigMap argo-rollouts/smoke StepPresetInvalid", `host: the key is not known: did you mean "hosts"?`}; !strings.HasPrefix(s.events[0], want[0]) || !strings.Contains(s.events[0], want[1]) {
		t.Errorf("Event %q", s.events)
	}
	for range 3 {
		s.unusable("smoke")
	}
	s.put("smoke", "true", preset(right))
	s.eventually("smoke", "a.example.com")
	s.until("no second Event", told(1))
	s.put("smoke", "true", preset(broken))
	s.until("another Event", told(2))
	s.put("smoke", "true", preset(other))
	s.eventually("smoke", "b.example.com")
	for range 2 { // steps find that an expression is wrong
		got, err := s.get("smoke")
		if err != nil {
			t.Fatal(err)
		}
		got.Report(errors.New("http.poll: no expression"))
	}
	s.until("an Event of the steps' mistake", told(3))
}

// Where the watch is not granted, presets are read, at most every 30 seconds; the label counts
// there too.
func TestTheWatchIsNotGranted(t *testing.T) {
	s := newSetup(t, "")
	s.server.SetFault(forbidAllButGet)
	s.put("smoke", "true", preset(right))
	s.put("legacy", "", preset(right))
	s.eventually("smoke", "a.example.com")
	s.unusable("legacy", "there is no preset legacy")
	s.reads()
	for range 10 {
		s.eventually("smoke", "a.example.com")
	}
	if got := s.reads(); got > 0 {
		t.Errorf("%d reads within 30 seconds", got)
	}
	s.put("smoke", "true", preset(other))
	s.pass(keptFor)
	s.eventually("smoke", "b.example.com")
	s.put("smoke", "true", preset(broken))
	s.pass(keptFor)
	if last := s.unusable("smoke", `did you mean "hosts"`); last == nil || last.Hosts[0] != "b.example.com" {
		t.Errorf("last %+v", last)
	}
	s.mu.Lock()
	if len(s.events) != 1 {
		t.Errorf("Events %q", s.events)
	}
	s.mu.Unlock()
	s.server.Delete("configmaps", "argo-rollouts", "smoke")
	s.pass(keptFor)
	s.unusable("smoke", "there is no preset smoke")
	for i := range 2 * maxUnknown { // Rollouts may name anything
		_, _ = s.get("x" + string(rune('a'+i%26)) + strings.Repeat("y", i/26))
	}
	s.Source.mu.Lock()
	defer s.Source.mu.Unlock()
	if len(s.known) > maxUnknown {
		t.Errorf("%d reads are kept", len(s.known))
	}
}

// An API server that is down as the process starts, or does not answer, holds steps up; one
// that goes away later does not.
func TestTheAPIServerIsDown(t *testing.T) {
	for name, fault := range map[string]apiservertest.Fault{
		"cut": func(http.ResponseWriter, *http.Request, apiservertest.Request) bool { panic(http.ErrAbortHandler) },
		"hanging": func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
			<-r.Context().Done()
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, "")
			s.put("smoke", "true", preset(right))
			s.server.SetFault(fault)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := s.Preset(ctx, "smoke")
			var unusable *steps.PresetError
			if !errors.As(err, &unusable) || !strings.Contains(err.Error(), "cannot be read") {
				t.Errorf("down from the start: %v", err)
			}
			if _, known := s.Section("smoke", "http"); known {
				t.Error("its section is known")
			}
			s.server.SetFault(nil)
			if name == "hanging" {
				return // the list that hangs is given up after two minutes
			}
			s.pass(time.Hour)
			s.eventually("smoke", "a.example.com")
			s.server.SetFault(fault)
			s.server.EndWatches()
			s.pass(time.Hour)
			s.eventually("smoke", "a.example.com")
		})
	}
}

// A barrier asks what a preset is for without waiting for it to be mended.
func TestSection(t *testing.T) {
	s := newSetup(t, "")
	s.put("smoke", "true", preset("defaults: {rollouts: {barrier: regions}}"))
	s.until("it is known", func() bool { _, known := s.Section("smoke", "rollouts"); return known })
	if section, _ := s.Section("smoke", "rollouts"); string(section) != `{"barrier":"regions"}` {
		t.Errorf("section %s", section)
	}
	if section, known := s.Section("smoke", "http"); string(section) != "null" || !known {
		t.Errorf("section of another kind: %s, %t", section, known)
	}
	if _, known := s.Section("absent", "rollouts"); known {
		t.Error("a preset that is not there is known")
	}
	s.put("smoke", "true", preset(broken))
	s.unusable("smoke")
	if section, known := s.Section("smoke", "rollouts"); string(section) != `{"barrier":"regions"}` || !known {
		t.Errorf("section of a broken preset: %s, %t", section, known)
	}
}

// The preset of a registration is read at most every 30 seconds, needs no label, and goes on
// to serve while the API server does not answer.
func TestThePresetOfARegistration(t *testing.T) {
	for name, fault := range map[string]struct {
		answer apiservertest.Fault
		want   string
	}{
		"forbidden": {func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			apiservertest.Forbidden(w, r)
			return true
		}, "grant the controller's ServiceAccount that it may get ConfigMaps"},
		"cut": {func(http.ResponseWriter, *http.Request, apiservertest.Request) bool { panic(http.ErrAbortHandler) }, "cannot be read"},
		"hanging": {func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
			<-r.Context().Done()
			return true
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, "e2e")
			s.put("e2e", "", preset(right))
			s.server.SetFault(fault.answer)
			if last := s.unusable("", fault.want); last != nil {
				t.Errorf("last %+v", last)
			}
			s.server.SetFault(nil)
			s.pass(retryAfter)
			s.eventually("", "a.example.com")
			s.server.Requests()
			for range 3 {
				s.eventually("", "a.example.com")
			}
			if got := s.server.Requests(); len(got) > 0 {
				t.Errorf("requests within %s: %v", keptFor, got)
			}
			s.server.SetFault(fault.answer)
			s.pass(keptFor)
			for range 3 {
				s.eventually("", "a.example.com")
			}
			s.server.SetFault(nil)
			s.put("e2e", "", preset(other))
			s.pass(keptFor)
			s.eventually("", "b.example.com")
			s.put("e2e", "", preset(broken))
			s.pass(keptFor)
			if last := s.unusable("", `did you mean "hosts"`); last == nil || last.Hosts[0] != "b.example.com" {
				t.Errorf("last %+v", last)
			}
			s.server.Delete("configmaps", "argo-rollouts", "e2e")
			s.pass(keptFor)
			if last := s.unusable("", "preset ConfigMap argo-rollouts/e2e does not exist", "--preset"); last == nil || last.Hosts[0] != "b.example.com" {
				t.Errorf("last %+v", last)
			}
		})
	}
}

// While a preset can neither be watched nor read, it is as it was last seen, by the watch or by a
// read: a hole that was closed since the last read stays closed.
func TestThePresetThatWasLastSeen(t *testing.T) {
	s := newSetup(t, "")
	s.server.SetFault(forbidAllButGet)
	s.put("smoke", "true", preset(right))
	s.eventually("smoke", "a.example.com")
	s.saw("smoke", s.contentOf(&corev1.ConfigMap{Data: map[string]string{steps.PresetKey: other}}), nil) // the watch is granted for a while
	s.server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		apiservertest.Forbidden(w, r)
		return true
	})
	s.pass(keptFor)
	if got, err := s.get("smoke"); err != nil || got.Hosts[0] != "b.example.com" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A call waits for another call's read no longer than its own context allows.
func TestTwoCallsAtOnce(t *testing.T) {
	s := newSetup(t, "e2e")
	s.put("e2e", "", preset(right))
	s.eventually("", "a.example.com")
	s.Source.known["e2e"].turn <- struct{}{} // as if another call were reading
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got, err := s.Preset(ctx, ""); err != nil || got.Hosts[0] != "a.example.com" {
		t.Errorf("%+v, %v", got, err)
	}
}

// forbidAllButGet is the API server of a plugin that may neither list nor watch.
func forbidAllButGet(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
	if r.Verb == "get" {
		return false
	}
	apiservertest.Forbidden(w, r)
	return true
}
