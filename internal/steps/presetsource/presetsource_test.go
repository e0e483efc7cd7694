package presetsource

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const right, other, broken = "hosts: [a.example.com]", "hosts: [b.example.com]", "host: [a.example.com]"

func put(server *apiservertest.Server, data map[string]any) {
	server.PutObject("configmaps", map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "argo-rollouts", "name": "e2e"}, "data": data,
	})
}

func preset(text string) map[string]any { return map[string]any{steps.PresetKey: text} }

// hosts requires a preset with this host.
func hosts(t *testing.T, source steps.PresetSource, want string) {
	t.Helper()
	got, err := source.Preset(t.Context())
	if err != nil || len(got.Hosts) != 1 || got.Hosts[0] != want {
		t.Fatalf("preset %+v, %v; want host %s", got, err, want)
	}
}

// unread requires that the preset cannot be read.
func unread(t *testing.T, source steps.PresetSource, words ...string) {
	t.Helper()
	_, err := source.Preset(t.Context())
	var unread *steps.UnreadError
	if !errors.As(err, &unread) {
		t.Fatalf("error %v, want an UnreadError", err)
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}

// invalid requires that the preset is wrong.
func invalid(t *testing.T, source steps.PresetSource, words ...string) {
	t.Helper()
	_, err := source.Preset(t.Context())
	var unread *steps.UnreadError
	if err == nil || errors.As(err, &unread) {
		t.Fatalf("error %v, want one that is no UnreadError", err)
	}
	for _, want := range words {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}

type setup struct {
	*ConfigMap
	server *apiservertest.Server
	clock  time.Time
	log    *bytes.Buffer
}

func newSetup(t *testing.T) *setup {
	s := &setup{server: apiservertest.New(t), clock: time.Unix(1000, 0), log: &bytes.Buffer{}}
	s.ConfigMap = NewConfigMap(kube.NewObjects(s.server.Config), "argo-rollouts", "e2e", hclog.New(&hclog.LoggerOptions{Output: s.log}))
	s.now = func() time.Time { return s.clock }
	return s
}

func TestConfigMapIsReadAgainAfterAWhile(t *testing.T) {
	s := newSetup(t)
	put(s.server, preset(right))
	for range 10 {
		hosts(t, s, "a.example.com")
	}
	put(s.server, preset(other))
	s.clock = s.clock.Add(keptFor - time.Second)
	hosts(t, s, "a.example.com")
	if got := len(s.server.Requests()); got != 1 {
		t.Errorf("%d requests within %s", got, keptFor)
	}
	s.clock = s.clock.Add(time.Second)
	hosts(t, s, "b.example.com")
}

func TestConfigMapThatIsNotThere(t *testing.T) {
	s := newSetup(t)
	unread(t, s, "preset ConfigMap argo-rollouts/e2e does not exist", "--preset")
	unread(t, s, "does not exist")
	if got := len(s.server.Requests()); got != 1 {
		t.Errorf("%d requests for one that was not there a moment ago", got)
	}
	put(s.server, preset(right))
	s.clock = s.clock.Add(retryAfter)
	hosts(t, s, "a.example.com")
	s.server.Delete("configmaps", "argo-rollouts", "e2e")
	s.clock = s.clock.Add(keptFor)
	hosts(t, s, "a.example.com")
	if !strings.Contains(s.log.String(), "does not exist") || !strings.Contains(s.log.String(), "goes on to serve") {
		t.Errorf("log: %s", s.log)
	}
}

func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	for name, fault := range map[string]struct {
		answer apiservertest.Fault
		want   string
	}{
		"forbidden": {func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
			apiservertest.Forbidden(w, r)
			return true
		}, "may not get the preset ConfigMap argo-rollouts/e2e"},
		"cut": {func(http.ResponseWriter, *http.Request, apiservertest.Request) bool { panic(http.ErrAbortHandler) }, "cannot be read"},
		"hanging": {func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
			<-r.Context().Done()
			return true
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			put(s.server, preset(right))
			read := func() (*steps.Preset, error) {
				within := time.Minute
				if name == "hanging" {
					within = 200 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				return s.Preset(ctx)
			}
			s.server.SetFault(fault.answer)
			var unread *steps.UnreadError
			if _, err := read(); !errors.As(err, &unread) || !strings.Contains(err.Error(), fault.want) {
				t.Errorf("before it was read: %v", err)
			}
			s.server.SetFault(nil)
			s.clock = s.clock.Add(retryAfter)
			hosts(t, s, "a.example.com")
			s.server.SetFault(fault.answer)
			s.clock = s.clock.Add(keptFor)
			for range 3 {
				if got, err := read(); err != nil || got.Hosts[0] != "a.example.com" {
					t.Errorf("after it was read: %+v, %v", got, err)
				}
			}
			if got := strings.Count(s.log.String(), "goes on to serve"); got != 1 {
				t.Errorf("%d lines in the log: %s", got, s.log)
			}
		})
	}
}

// A call waits for another call's read no longer than its own context allows.
func TestTwoCallsAtOnce(t *testing.T) {
	s := newSetup(t)
	put(s.server, preset(right))
	hosts(t, s, "a.example.com")
	s.reading <- struct{}{} // as if another call were reading
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got, err := s.Preset(ctx); err != nil || got.Hosts[0] != "a.example.com" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConfigMapThatIsWrong(t *testing.T) {
	s := newSetup(t)
	put(s.server, preset(broken))
	invalid(t, s, `preset ConfigMap argo-rollouts/e2e: data["preset.yaml"]: unknown key "host": did you mean "hosts"?`)
	put(s.server, preset(right))
	s.clock = s.clock.Add(keptFor)
	hosts(t, s, "a.example.com")
	put(s.server, map[string]any{"preset.yml": right})
	s.clock = s.clock.Add(keptFor)
	invalid(t, s, `has no data["preset.yaml"]`)
	put(s.server, preset(right))
	s.clock = s.clock.Add(keptFor)
	hosts(t, s, "a.example.com")
	put(s.server, preset(broken))
	s.clock = s.clock.Add(keptFor)
	invalid(t, s, `"host"`)
	// After it is deleted, the preset stays what it was last known to be.
	s.server.Delete("configmaps", "argo-rollouts", "e2e")
	s.clock = s.clock.Add(keptFor)
	invalid(t, s, `"host"`)
	put(s.server, preset(other))
	s.clock = s.clock.Add(retryAfter)
	hosts(t, s, "b.example.com")
}

func TestFile(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "preset.yaml"), &bytes.Buffer{}
	source := NewFile(path, hclog.New(&hclog.LoggerOptions{Output: log}))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unread(t, source, "preset "+path+" cannot be read", "no such file")
	write(broken)
	invalid(t, source, "preset "+path, `"host"`)
	write(right)
	hosts(t, source, "a.example.com")
	write(other) // of the same length
	hosts(t, source, "b.example.com")
	write(broken)
	invalid(t, source)
	write(other)
	hosts(t, source, "b.example.com")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	hosts(t, source, "b.example.com")
	hosts(t, source, "b.example.com")
	if got := strings.Count(log.String(), "goes on to serve"); got != 1 {
		t.Errorf("log: %s", log)
	}
	write("# " + strings.Repeat("x", maxSize))
	fresh := NewFile(path, hclog.NewNullLogger())
	unread(t, fresh, "more than 1048576 bytes")
}
