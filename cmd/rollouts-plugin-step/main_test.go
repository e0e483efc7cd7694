package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-plugin"

	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
)

// binary is the program, built once for all tests of this package.
var binary string

// TestMain also makes this test program run as the plugin, with the kind probe.
func TestMain(m *testing.M) {
	if rolloutsplugin.StartedAsStep() {
		os.Exit(run(os.Args, func(options kinds.Options) []steps.Kind { return []steps.Kind{probe{options}} }))
	}
	plugintest.PlayController(func(path string) *plugin.Client { return plugintest.StepClient(path, os.Stderr, "probe") }, plugintest.DispenseStep)
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rollouts-plugin-step")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "rollouts-plugin-step")
	if err := plugintest.Build(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// installed returns where the controller would put the program under a registered name: it
// is this test program, with the kind probe.
func installed(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin-bin", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// probe is a kind that does what its configuration says.
type probe struct{ options kinds.Options }

type probeStep struct {
	probe
	Say        string `json:"say"`
	PanicParse bool   `json:"panicParse"`
	PanicPoll  bool   `json:"panicPoll"`
}

func (probe) Name() string { return "probe" }

func (p probe) Parse(source steps.Source) (steps.Step, error) {
	step := &probeStep{probe: p}
	if err := json.Unmarshal(source.Config, step); err != nil {
		return nil, err
	}
	if step.PanicParse {
		panic("in Parse")
	}
	return step, nil
}

func (s *probeStep) Repeatable() bool { return true }
func (s *probeStep) Finds() bool      { return false }

func (s *probeStep) Start(_ context.Context, w steps.Work) (steps.Progress, error) {
	return steps.Progress{Phase: steps.Running, Message: w.PluginName + " says " + s.Say, Outputs: map[string]string{"hosts": strings.Join(s.options.AllowHosts, " ")}}, nil
}

func (s *probeStep) Poll(context.Context, steps.Work) (steps.Progress, error) {
	if s.PanicPoll {
		panic("in Poll")
	}
	return steps.Progress{Phase: steps.Successful, Message: "done"}, nil
}

func (s *probeStep) Cancel(context.Context, steps.Work) error { return nil }
func (s *probeStep) Undo(context.Context, steps.Work) error   { return nil }
func (s *probeStep) Left(steps.Work) string                   { return "a probe" }

func TestCommandLine(t *testing.T) {
	for title, tc := range map[string]struct {
		args, env []string
		code      int
		stdout    string
		stderr    string
	}{
		"version":               {args: []string{"version"}, stdout: "rollouts-plugin-step v1.2.3 (commit abc, go1."},
		"help":                  {args: []string{"--help"}, stdout: "--allow-host"},
		"run by a person":       {code: 2, stderr: "this is a plugin: the Argo Rollouts controller runs it"},
		"an unknown kind":       {args: []string{"htp"}, code: 2, stderr: `kind "htp" is not known`},
		"an unknown flag":       {args: []string{"--allow-hosts=x"}, code: 2, stderr: "unknown flag: --allow-hosts: did you mean --allow-host?"},
		"among traffic routers": {env: []string{"ARGO_ROLLOUTS_RPC_PLUGIN=trafficrouter"}, code: 2, stderr: "steps under stepPlugins"},
	} {
		t.Run(title, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binary, tc.args...)
			cmd.Env = append(os.Environ(), tc.env...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // judged by its exit code
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("exit code %d (want %d)\nstdout, want %q in:\n%s\nstderr, want %q in:\n%s", code, tc.code, tc.stdout, stdout.String(), tc.stderr, stderr.String())
			}
		})
	}
}

// Presets are those of one namespace: an empty one would be all of them.
func TestTheControllersNamespace(t *testing.T) {
	for set, want := range map[string]string{"argo": "argo", "": "argo-rollouts"} {
		if t.Setenv("POD_NAMESPACE", set); controllerNamespace() != want {
			t.Errorf("POD_NAMESPACE %q: %q", set, controllerNamespace())
		}
	}
}
