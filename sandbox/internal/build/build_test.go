package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
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

func TestKey(t *testing.T) {
	base := map[string]string{"go.mod": "module m\n", "go.sum": "sums\n", "go-v2.mod": "module m\n", "go-v2.sum": "sums\n", "main.go": "package main\n"}
	key := func(toolchain string, changes map[string]string, change func(*Source)) string {
		t.Helper()
		source := Source{Name: "name", Dir: t.TempDir(), Packages: []string{"."}}
		write(t, source.Dir, base)
		write(t, source.Dir, changes)
		if change != nil {
			change(&source)
		}
		key, err := source.key(toolchain)
		if err != nil {
			t.Fatal(err)
		}
		if !isKey(key) || !strings.HasPrefix(key, "name-") {
			t.Errorf("key %q is not of the form that prune looks for", key)
		}
		return key
	}
	first := key("go1.26", nil, nil)
	for name, same := range map[string]string{
		"directory":         key("go1.26", nil, nil),
		"other directories": key("go1.26", map[string]string{"sub/main.go": "package main\n"}, nil),
		"other go.mod":      key("go1.26", map[string]string{"go-v2.mod": "module m2\n"}, nil),
	} {
		if same != first {
			t.Errorf("the key depends on the %s", name)
		}
	}
	for name, other := range map[string]string{
		"toolchain":    key("go1.27", nil, nil),
		"go.mod":       key("go1.26", map[string]string{"go.mod": "module m2\n"}, nil),
		"go.sum":       key("go1.26", map[string]string{"go.sum": "other sums\n"}, nil),
		"source":       key("go1.26", map[string]string{"main.go": "package main // changed\n"}, nil),
		"new source":   key("go1.26", map[string]string{"more.go": "package main\n"}, nil),
		"moved bytes":  key("go1.26", map[string]string{"go.mod": "module m\ns", "go.sum": "ums\n"}, nil),
		"modfile":      key("go1.26", nil, func(s *Source) { s.ModFile = "go-v2.mod" }),
		"modfile's":    key("go1.26", map[string]string{"go-v2.sum": "x\n"}, func(s *Source) { s.ModFile = "go-v2.mod" }),
		"release":      key("go1.26", nil, func(s *Source) { s.Version = "v1.0.0" }),
		"next release": key("go1.26", nil, func(s *Source) { s.Version = "v1.0.1" }),
		"own sums":     key("go1.26", nil, func(s *Source) { s.OwnSums = true }),
		"packages":     key("go1.26", nil, func(s *Source) { s.Packages = append(s.Packages, "x") }),
		"stamp":        key("go1.26", nil, func(s *Source) { s.Stamp = "-X a.b=c" }),
		"files":        key("go1.26", nil, func(s *Source) { s.Files = []string{"install.yaml"} }),
	} {
		if other == first {
			t.Errorf("a change of %s does not change the key", name)
		}
	}
	if _, err := (Source{Dir: t.TempDir()}).key("go1.26"); err == nil {
		t.Error("a directory without a module has a key")
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

	// This test runs inside the source tree.
	got, err := FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(got, "sandbox", "kubernetes", "main.go")); err != nil {
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
	const unused, used, building, crashed = "a-00000000000000aa", "a-b-00000000000000bb", "c-00000000000000cc", "d-00000000000000dd"
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

// upstream makes a module and a Source that is built from it. Its program prints the
// version that it is stamped with.
func upstream(t *testing.T, dir string) Source {
	t.Helper()
	write(t, dir, map[string]string{
		"go.mod":                "module example.com/up\n\ngo 1.26\n",
		"go.sum":                "",
		"cmd/say/main.go":       "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		"manifests/crds/a.yaml": "a",
		"manifests/b.yaml":      "b",
	})
	return Source{
		Name: "up", Dir: dir, Upstream: "example.com/up", Packages: []string{"./cmd/say"},
		Stamp: "-X main.version={version}/{number}", Files: []string{"manifests/*.yaml", "manifests/crds/*"},
	}
}

// A build makes a complete cache entry, with its programs and files.
func TestBuildRelease(t *testing.T) {
	module, dir := t.TempDir(), t.TempDir()
	source := upstream(t, module)
	r := &release{Source: source, tool: goTool{dir: module}, version: "v1.2.3", root: module}
	if err := r.build(t.Context(), dir, func(string) {}, nil); err != nil {
		t.Fatal(err)
	}
	entry, ok := present(dir)
	if !ok || entry.Version != "v1.2.3" {
		t.Fatalf("entry %+v, %v", entry, ok)
	}
	output, err := exec.Command(entry.Program("say")).CombinedOutput()
	if err != nil || string(output) != "v1.2.3/1.2.3\n" {
		t.Errorf("the program says %q (%v)", output, err)
	}
	for name, want := range map[string]string{"manifests/b.yaml": "b", "manifests/crds/a.yaml": "a"} {
		path := entry.File(name)
		if content, err := os.ReadFile(path); err != nil || string(content) != want {
			t.Errorf("%s holds %q (%v)", path, content, err)
		}
		if info, err := os.Stat(path); err == nil && info.Mode()&0o200 == 0 {
			t.Errorf("%s cannot be written, nor removed", path)
		}
	}
	r.Files = []string{"manifests/none.yaml"}
	if err := r.build(t.Context(), t.TempDir(), func(string) {}, nil); err == nil || !strings.Contains(err.Error(), "no file manifests/none.yaml") {
		t.Errorf("without its files: %v", err)
	}
}

// An existing cache entry is used without building anything.
func TestEnsureUsesWhatIsThere(t *testing.T) {
	cache := t.TempDir()
	source := upstream(t, t.TempDir())
	source.Packages = []string{"./does-not-compile"}
	toolchain, err := goTool{dir: source.Dir}.output(t.Context(), "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		t.Fatal(err)
	}
	key, err := source.key(toolchain)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, key)
	write(t, dir, map[string]string{versionFile: "v1.2.3\n"})
	got, err := Ensure(t.Context(), source, cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Entry{Dir: dir, Version: "v1.2.3"}, got); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// A build that fails leaves nothing that a later run could take for an entry, and
// says what is wrong.
func TestEnsureFails(t *testing.T) {
	for want, change := range map[string]func(*Source){
		"example.com/none":           func(s *Source) { s.Upstream = "example.com/none" },
		`version "1.9"`:              func(s *Source) { s.Version = "1.9" },
		`version "v1.9 --x"`:         func(s *Source) { s.Version = "v1.9 --x" },
		"downloading example.com/up": func(s *Source) { s.Version = "v9.9.9" },
	} {
		cache := t.TempDir()
		source := upstream(t, t.TempDir())
		change(&source)
		t.Setenv("GOPROXY", "off")
		if _, err := Ensure(t.Context(), source, cache, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
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
}
