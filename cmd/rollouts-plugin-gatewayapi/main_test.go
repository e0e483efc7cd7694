package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

// installed is the plugin where the controller puts it, registered as acme/gateway.
var installed string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	installed = filepath.Join(dir, "plugin-bin", "acme", "gateway")
	if err := plugintest.Build(installed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func TestCommandLine(t *testing.T) {
	for title, tc := range map[string]struct {
		args         []string
		code         int
		stdout, text string
	}{
		"version":         {[]string{"version"}, 0, "rollouts-plugin-gatewayapi v1.2.3 (commit abc, go1.", ""},
		"help":            {[]string{"--help"}, 0, "(default \"acme/gateway\")", ""},
		"run by a person": {nil, 2, "", "this is a plugin: the Argo Rollouts controller runs it"},
		"flags of before": {[]string{"-kubeClientQPS", "50", "-kubeClientBurst=100", "-logformat", "text", "-kubeconfig", "file"}, 2, "", "this is a plugin"},
		"unknown flag":    {[]string{"-kubeClientX", "1"}, 2, "", "unknown shorthand flag"},
	} {
		t.Run(title, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), installed, tc.args...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // judged by its exit code
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.text) {
				t.Errorf("exit code %d (want %d)\nstdout, want %q in:\n%s\nstderr, want %q in:\n%s", code, tc.code, tc.stdout, stdout.String(), tc.text, stderr.String())
			}
		})
	}
}

func TestWithTwoDashes(t *testing.T) {
	got := withTwoDashes([]string{"-kubeClientQPS", "5", "--kubeClientBurst", "6", "-logformat=json", "-kubeconfig", "a", "-kubeconfig=a", "--log-level=info", "-kubeClient", "logformat"})
	want := []string{"--kubeClientQPS", "5", "--kubeClientBurst", "6", "--logformat=json", "--kubeconfig", "a", "--kubeconfig=a", "--log-level=info", "-kubeClient", "logformat"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
