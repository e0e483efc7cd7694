package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"version":          {[]string{"version"}, 0, "kubectl-canary dev (commit unknown, go1."},
		"alone":            {nil, 0, "kubectl canary [command]"},
		"help":             {[]string{"check", "--help"}, 0, "kubectl canary check [rollout]"},
		"unknown command":  {[]string{"chekc"}, 2, `unknown command "chekc" for "kubectl canary"`},
		"check, no config": {[]string{"check", "-n", "demo"}, 2, "no cluster to look at"},
		"check, bad flag":  {[]string{"check", "-o", "xml"}, 2, "xml"},
		"steps of nothing": {[]string{"steps"}, 2, "accepts 1 arg(s)"},
	} {
		t.Run(name, func(t *testing.T) {
			root := command()
			var output bytes.Buffer
			root.SetOut(&output)
			root.SetErr(&output)
			root.SetArgs(append([]string{}, tc.args...))
			err := root.Execute()
			if err != nil {
				output.WriteString(err.Error())
			}
			if code := check.ExitCode(err); code != tc.code || !strings.Contains(output.String(), tc.says) || errors.Is(err, check.ErrFailed) {
				t.Errorf("exit code %d (want %d), want %q in:\n%s", code, tc.code, tc.says, output.String())
			}
		})
	}
}
