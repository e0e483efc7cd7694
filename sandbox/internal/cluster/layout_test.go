package cluster

import (
	"os"
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

// The sandbox without a name is another one in each checkout.
func TestDefaultLayout(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/states")
	defaultOf := func(checkout, name string) string {
		t.Chdir(checkout)
		l, err := NewLayout(name, "")
		if err != nil || !strings.HasPrefix(l.Dir, "/states/rollouts-sandbox/default-") {
			t.Errorf("in %s the sandbox %q is in %s, %v", checkout, name, l.Dir, err)
		}
		return l.Dir
	}
	var checkouts [2]string
	for i := range checkouts {
		checkouts[i] = t.TempDir()
		if err := os.Mkdir(filepath.Join(checkouts[i], "sandbox"), 0o755); err != nil {
			t.Fatal(err)
		}
		module := []byte("module github.com/kedify/argo-rollouts-plugin/sandbox\n")
		if err := os.WriteFile(filepath.Join(checkouts[i], "sandbox", "go.mod"), module, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	first := defaultOf(checkouts[0], "")
	if again := defaultOf(filepath.Join(checkouts[0], "sandbox"), DefaultName); again != first {
		t.Errorf("one checkout has two defaults, %s and %s", first, again)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(checkouts[0], link); err != nil {
		t.Fatal(err)
	}
	if linked := defaultOf(link, ""); linked != first {
		t.Errorf("one checkout has two defaults, %s and, through a link, %s", first, linked)
	}
	if second := defaultOf(checkouts[1], ""); second == first {
		t.Errorf("two checkouts share %s", first)
	}
}
