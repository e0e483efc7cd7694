package main_test

import (
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	tests := map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"version":         {args: []string{"version"}, stdout: "rollouts-plugin-kedify v1.2.3 (commit abc, go1."},
		"help":            {args: []string{"--help"}, stdout: "kedify/http"},
		"run by a person": {code: 2, stderr: "this is a plugin: the Argo Rollouts controller runs it (`kubectl canary check`"},
		"unknown level":   {args: []string{"--log-level", "loud"}, code: 2, stderr: `--log-level "loud": want one of trace, debug, info, warn, error`},
		"unknown format":  {args: []string{"--log-format", "xml"}, code: 2, stderr: `--log-format "xml": want one of json, text`},
		"unknown flag":    {args: []string{"--loglevel", "info"}, code: 2, stderr: "unknown flag: --loglevel"},
		"two namespaces":  {args: []string{"--watch-namespace", "a,b"}, code: 2, stderr: `--watch-namespace "a,b": want the name of one namespace`},
		"unknown command": {args: []string{"chekc"}, code: 2, stderr: `"chekc"`},
		"check":           {args: []string{"check"}, code: 2, stderr: "rollouts-plugin-kedify: check is a program of its own now, `kubectl canary check`"},
		"check, flags":    {args: []string{"check", "-n", "demo", "-o", "xml", "--help"}, code: 2, stderr: "`kubectl canary check` with the same arguments"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := invoke(t, tc.args...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("exit code %d (want %d)\nstdout, want %q in:\n%s\nstderr, want %q in:\n%s", code, tc.code, tc.stdout, stdout, tc.stderr, stderr)
			}
		})
	}
}
