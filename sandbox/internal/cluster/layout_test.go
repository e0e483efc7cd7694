package cluster

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for name, valid := range map[string]bool{
		"default": true, "a": true, "e2e-17": true, "0": true, strings.Repeat("x", 40): true,
		"": false, "-a": false, "a-": false, "A": false, "a_b": false, "a.b": false, "../a": false, "a/b": false,
		"a b": false, "ä": false, "a\n": false, strings.Repeat("x", 41): false,
	} {
		if err := CheckName(name); (err == nil) != valid {
			t.Errorf("CheckName(%q) = %v, want valid: %v", name, err, valid)
		}
	}
}

func TestNewLayout(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	here := t.TempDir()
	t.Chdir(here)
	for _, tc := range []struct{ name, state, xdg, want string }{
		{want: "/home/me/.local/state/rollouts-sandbox/default"},
		{name: "two", want: "/home/me/.local/state/rollouts-sandbox/two"},
		{name: "two", xdg: "/states", want: "/states/rollouts-sandbox/two"},
		{name: "two", state: "/else/where", xdg: "/states", want: "/else/where"},
		{state: "relative", want: filepath.Join(here, "relative")},
	} {
		t.Setenv("XDG_STATE_HOME", tc.xdg)
		got, err := NewLayout(tc.name, tc.state)
		if err != nil || got.Dir != tc.want {
			t.Errorf("NewLayout(%q, %q) with XDG_STATE_HOME=%q: %q, %v; want %q", tc.name, tc.state, tc.xdg, got.Dir, err, tc.want)
		}
	}
	if _, err := NewLayout("../escape", ""); err == nil {
		t.Error("a name that leaves the directory is accepted")
	}
}
