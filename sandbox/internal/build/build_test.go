package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write makes files below dir, by path and content.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCacheKey(t *testing.T) {
	base := map[string]string{"go.mod": "module m\n", "go.sum": "sums\n", "cmd/cluster/main.go": "package main\n"}
	key := func(toolchain string, changes map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		write(t, dir, base)
		write(t, dir, changes)
		key, err := cacheKey(dir, toolchain)
		if err != nil {
			t.Fatal(err)
		}
		if !isKey(key) {
			t.Errorf("key %q is not of the form that prune looks for", key)
		}
		return key
	}
	first := key("go1.26", nil)
	if again := key("go1.26", map[string]string{"cmd/sandbox/main.go": "package main\n"}); again != first {
		t.Errorf("the key depends on the directory, or on sources of other programs: %s, then %s", first, again)
	}
	for name, other := range map[string]string{
		"toolchain":   key("go1.27", nil),
		"go.mod":      key("go1.26", map[string]string{"go.mod": "module m2\n"}),
		"go.sum":      key("go1.26", map[string]string{"go.sum": "other sums\n"}),
		"source":      key("go1.26", map[string]string{"cmd/cluster/main.go": "package main // changed\n"}),
		"new source":  key("go1.26", map[string]string{"cmd/cluster/more.go": "package main\n"}),
		"moved bytes": key("go1.26", map[string]string{"go.mod": "module m\ns", "go.sum": "ums\n"}),
	} {
		if other == first {
			t.Errorf("a change of %s does not change the key", name)
		}
	}
	if _, err := cacheKey(t.TempDir(), "go1.26"); err == nil {
		t.Error("a directory without sources has a key")
	}
}

func TestFindRepository(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"sandbox/go.mod":       "// The sandbox.\nmodule " + modulePath + "\n\ngo 1.26\n",
		"sandbox/deep/down/x":  "",
		"other/sandbox/go.mod": "module example.com/other\n",
		"other/y":              "",
		"file/sandbox":         "not a directory",
	})
	for _, from := range []string{".", "sandbox", "sandbox/deep/down", "other", "other/sandbox", "file"} {
		got, ok := repositoryAbove(filepath.Join(root, from))
		if !ok || got != root {
			t.Errorf("from %s: %q, %v; want %q", from, got, ok, root)
		}
	}
	if got, ok := repositoryAbove(t.TempDir()); ok {
		t.Errorf("found in an empty directory: %q", got)
	}

	// Here the sources are around the test.
	got, err := FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(got, "sandbox", "cmd", "cluster", "main.go")); err != nil {
		t.Error(err)
	}
}

func TestIsPackage(t *testing.T) {
	for line, want := range map[string]bool{
		"k8s.io/kubernetes/cmd/kube-apiserver/app": true,
		"fmt":                           true,
		"":                              false,
		"# k8s.io/api":                  false,
		"go: downloading k8s.io/api v1": false,
		"./main.go:3:4: undefined: x":   false,
		"\tnote":                        false,
	} {
		if got := isPackage(line); got != want {
			t.Errorf("isPackage(%q) = %v", line, got)
		}
	}
}

func TestCount(t *testing.T) {
	c := newCount(map[string]bool{"a": true, "b/c": true})
	if got, want := c.String(), "2 packages"; got != want {
		t.Errorf("at first: %q, want %q", got, want)
	}
	for _, line := range []string{"a", "# b/c", "a", "strange"} {
		c.add(line)
	}
	if got, want := c.String(), "1 packages compiled, of at most 2, the last a"; got != want {
		t.Errorf("then: %q, want %q", got, want)
	}
}

func TestPrune(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	old := now.Add(-keepUnused - time.Hour)
	const unused, used, building, crashed = "00000000000000aa", "00000000000000bb", "00000000000000cc", "00000000000000dd"
	for _, name := range []string{unused, used, building + ".partial", crashed + ".partial", "somebody-elses"} {
		dir := filepath.Join(cache, name)
		write(t, dir, map[string]string{"cluster": ""})
		if name != used {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	release, err := lock(t.Context(), filepath.Join(cache, building+".lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	prune(cache, now)

	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := []string{used, building + ".lock", building + ".partial", "somebody-elses"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestLockIsExclusiveAndCancellable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a second lock: %v, want it to wait until it is cancelled", err)
	}
	release()
	again, err := lock(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again()
}

func TestGoToolReportsErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module m\n", "main.go": "package main\n\nfunc main() { undefined() }\n"})
	tool := goTool{dir: dir}
	if got, err := tool.output(t.Context(), "env", "GOHOSTARCH"); err != nil || got != runtime.GOARCH {
		t.Errorf("go env GOHOSTARCH = %q, %v", got, err)
	}
	_, err := tool.output(t.Context(), "vet", "./nothing")
	if err == nil {
		t.Fatal("a failing go command is no error")
	}
	for _, part := range []string{"go vet ./nothing", dir, "nothing"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tool.output(ctx, "env"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A cache entry that is there is used without building anything.
func TestEnsureUsesWhatIsThere(t *testing.T) {
	repository, cache := t.TempDir(), t.TempDir()
	module := filepath.Join(repository, "sandbox")
	write(t, module, map[string]string{"go.mod": "module " + modulePath + "\n", "go.sum": "", "cmd/cluster/main.go": "package main\n"})
	toolchain, err := goTool{dir: module}.output(t.Context(), "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		t.Fatal(err)
	}
	key, err := cacheKey(module, toolchain)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(cache, key), map[string]string{"cluster": "program"})

	got, err := Ensure(t.Context(), Options{Repository: repository, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, key)
	want := &Cluster{Dir: dir, Program: filepath.Join(dir, "cluster"), Manifests: filepath.Join(dir, "manifests")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// A build that fails leaves nothing that a later run could take for an entry.
func TestEnsureLeavesNothingOnFailure(t *testing.T) {
	repository, cache := t.TempDir(), t.TempDir()
	write(t, filepath.Join(repository, "sandbox"), map[string]string{
		"go.mod": "module " + modulePath + "\n", "go.sum": "", "cmd/cluster/main.go": "package main\n",
	})
	if _, err := Ensure(t.Context(), Options{Repository: repository, Cache: cache}); err == nil {
		t.Fatal("a build without sources of Argo Rollouts succeeds")
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".lock" {
			t.Errorf("left in the cache: %s", entry.Name())
		}
	}
}
