package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

func TestStateIsClaimedAndRemoved(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	l, err := NewLayout("one", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := removeState(l); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if err := claimState(l); err != nil {
		t.Fatal(err)
	}
	if err := claimState(l); err != nil {
		t.Errorf("claiming again: %v", err)
	}
	// What pods leave: directories without write permission.
	locked := filepath.Join(l.Dir, "pods", "x", "locked")
	if err := os.MkdirAll(locked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(locked, "file"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := removeState(l); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(l.Dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of all sandboxes is left after the last one: %v", err)
	}
}

func TestRemovingOneSandboxLeavesTheOther(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var layouts []Layout
	for _, name := range []string{"left", "right"} {
		l, err := NewLayout(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := claimState(l); err != nil {
			t.Fatal(err)
		}
		layouts = append(layouts, l)
	}
	if err := removeState(layouts[0]); err != nil {
		t.Fatal(err)
	}
	if isState(layouts[0]) || !isState(layouts[1]) {
		t.Errorf("after removing left: left is there: %t, right: %t; want only right", isState(layouts[0]), isState(layouts[1]))
	}
}

// A sandbox that is still being built has not ended unexpectedly, and `down` is no help.
func TestOpenWhileBuilding(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if err := claimState(l); err != nil {
		t.Fatal(err)
	}
	release, err := lockState(l)
	if err != nil {
		t.Fatal(err)
	}
	const busy = "another command is bringing"
	if _, err := Open("", l.Dir); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("while it is being built: %v, want %q", err, busy)
	}
	release()
	if _, err := Open("", l.Dir); !errors.Is(err, errNotRunning) {
		t.Errorf("afterwards: %v, want %v", err, errNotRunning)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	precious := filepath.Join(l.Dir, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := claimState(l); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Errorf("claimed: %v", err)
	}
	if err := removeState(l); err == nil {
		t.Error("removed")
	}
	if _, err := os.Lstat(precious); err != nil {
		t.Error(err)
	}
}

func TestStateLock(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	release, err := lockState(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(l); err == nil || !strings.Contains(err.Error(), "another command") {
		t.Errorf("a second lock: %v", err)
	}
	release()
	if release, err = lockState(l); err != nil {
		t.Errorf("after release: %v", err)
	} else {
		release()
	}
}

func TestClearStateKeepsTheMarker(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if err := claimState(l); err != nil {
		t.Fatal(err)
	}
	if err := (settings{Name: "old"}).save(l); err != nil {
		t.Fatal(err)
	}
	if err := clearState(l, nil); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || filepath.Join(l.Dir, entries[0].Name()) != l.marker() {
		t.Errorf("left: %v", entries)
	}
}

func TestSettingsAreReadAsWritten(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	want := settings{Name: "n", Program: "/p", Kubernetes: "v1.34.10", Deploy: "/d", Addons: []preparedAddon{
		{Name: "a", Version: "v1.2.3", Paths: addon.Paths{"program": "/a"}}, {Name: "b"},
	}}
	if err := want.save(l); err != nil {
		t.Fatal(err)
	}
	got, err := loadSettings(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
