// Package build makes the programs a sandbox runs. The cluster's components
// take long to compile and seldom change: they are built once into a cache.
// The project's own programs are small, and built anew each time.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

const (
	rolloutsModule   = "github.com/argoproj/argo-rollouts"
	kubernetesModule = "k8s.io/kubernetes"

	// keepUnused is how long an entry stays in the cache after its last use.
	keepUnused = 14 * 24 * time.Hour
)

// linkerFlags is completed with the versions of Kubernetes and Argo Rollouts,
// the latter without its v, which their release builds stamp into the binaries the same way.
const linkerFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=%[1]s -X k8s.io/component-base/version.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=%[1]s" +
	" -X github.com/argoproj/argo-rollouts/utils/version.version=%[2]s"

// Options says what to build, and where to.
type Options struct {
	// Repository is the root of the source tree. Empty means FindRepository.
	Repository string
	// Cache is the directory of the cache. Empty means
	// $XDG_CACHE_HOME/rollouts-sandbox, or ~/.cache/rollouts-sandbox.
	Cache string
	// Progress is told what is going on; nil discards it.
	Progress *progress.Printer
}

// Cluster is a cache entry: the programs and manifests of one set of versions.
type Cluster struct {
	// Dir holds the programs `cluster` and `rollouts-controller`.
	Dir string
	// Program is every Kubernetes component, etcd and kubectl in one binary;
	// its first argument, or the name it is called by, selects one.
	Program string
	// Manifests holds Argo Rollouts' own install.yaml and crds/.
	Manifests string
}

// DefaultCache returns the directory of the cache when none is given.
func DefaultCache() (string, error) {
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the build cache: %w; set XDG_CACHE_HOME", err)
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "rollouts-sandbox"), nil
}

// Ensure returns the cache entry for the sources as they are, building it when
// it is missing. Runs in other processes wait for one another. An interrupted
// build leaves no entry, and what was compiled stays in Go's own build cache.
func Ensure(ctx context.Context, opts Options) (*Cluster, error) {
	module, err := opts.module()
	if err != nil {
		return nil, err
	}
	cache := opts.Cache
	if cache == "" {
		if cache, err = DefaultCache(); err != nil {
			return nil, err
		}
	}
	tool := goTool{dir: module}
	toolchain, err := tool.output(ctx, "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		return nil, err
	}
	key, err := cacheKey(module, toolchain)
	if err != nil {
		return nil, fmt.Errorf("build cache key: %w", err)
	}
	dir := filepath.Join(cache, key)
	entry := &Cluster{Dir: dir, Program: filepath.Join(dir, "cluster"), Manifests: filepath.Join(dir, "manifests")}
	if entry.present() {
		return entry, nil
	}

	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	release, err := lock(ctx, dir+".lock", opts.Progress)
	if err != nil {
		return nil, err
	}
	defer release()
	defer opts.Progress.Done()
	if entry.present() { // built while this run waited
		return entry, nil
	}

	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return nil, err
	}
	if err := buildCluster(ctx, tool, partial, opts.Progress); err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	// The rename makes the entry appear whole or not at all.
	if err := os.Rename(partial, dir); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	opts.Progress.Say("built into %s", dir)
	prune(cache, time.Now())
	return entry, nil
}

// present says whether the entry is in the cache, and notes its use.
func (c *Cluster) present() bool {
	if _, err := os.Stat(c.Program); err != nil {
		return false
	}
	// Not allowed in a cache shared by several users, where it is not needed.
	now := time.Now()
	_ = os.Chtimes(c.Dir, now, now)
	return true
}

func buildCluster(ctx context.Context, tool goTool, dir string, out *progress.Printer) error {
	out.Say("building etcd, Kubernetes, kubectl and the Argo Rollouts controller from their Go modules;\n" +
		"this happens once, and takes 5 to 10 minutes on 2 cores when nothing is in Go's build cache")
	start := time.Now()
	downloads := func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			out.Status("downloading %s, %s", module, progress.Seconds(time.Since(start)))
		}
	}
	packages := []string{"./cmd/cluster", rolloutsModule + "/cmd/rollouts-controller"}

	var list strings.Builder
	if err := tool.run(ctx, &list, downloads, append([]string{"list", "-deps"}, packages...)...); err != nil {
		return err
	}
	known := make(map[string]bool)
	for line := range strings.Lines(list.String()) {
		known[strings.TrimSpace(line)] = true
	}
	kubernetes, err := tool.output(ctx, "list", "-m", "-f", "{{.Version}}", kubernetesModule)
	if err != nil {
		return err
	}
	rollouts, err := tool.output(ctx, "list", "-m", "-f", "{{.Version}} {{.Dir}}", rolloutsModule)
	if err != nil {
		return err
	}
	rolloutsVersion, rolloutsDir, _ := strings.Cut(rollouts, " ")

	compiled := newCount(known)
	stop := every(time.Second, func() {
		out.Status("building: %s, %s", compiled, progress.Seconds(time.Since(start)))
	})
	args := append([]string{"build", "-v", "-buildvcs=false", "-ldflags", fmt.Sprintf(linkerFlags, kubernetes, strings.TrimPrefix(rolloutsVersion, "v")), "-o", dir + "/"}, packages...)
	err = tool.run(ctx, io.Discard, compiled.add, args...)
	stop()
	if err != nil {
		return err
	}
	return copyManifests(filepath.Join(rolloutsDir, "manifests"), filepath.Join(dir, "manifests"))
}

// every calls f each interval until the returned function is called.
func every(interval time.Duration, f func()) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			f()
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(done); <-ended }
}

// copyManifests copies what the sandbox applies of Argo Rollouts' manifests.
// The module cache is read-only; the copies are not, so that the cache can be
// removed with a plain rm -r.
func copyManifests(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "crds"), 0o755); err != nil {
		return err
	}
	crds, err := filepath.Glob(filepath.Join(from, "crds", "*.yaml"))
	if err != nil {
		return err
	}
	for _, path := range append(crds, filepath.Join(from, "install.yaml")) {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("manifests of Argo Rollouts: %w", err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Program builds one of the project's own programs to the file out: pkg is a
// package path relative to the module in dir, such as ./cmd/sandbox. The state
// of the version control is left out: reading it fails in a clone of another
// user's.
func Program(ctx context.Context, dir, pkg, out string, p *progress.Printer) error {
	start := time.Now()
	defer p.Done()
	stop := every(time.Second, func() {
		if elapsed := time.Since(start); elapsed > 2*time.Second {
			p.Status("building %s, %s", pkg, progress.Seconds(elapsed))
		}
	})
	defer stop()
	_, err := goTool{dir: dir}.output(ctx, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, pkg)
	return err
}

// module returns the directory of the sandbox's Go module.
func (o Options) module() (string, error) {
	root := o.Repository
	if root == "" {
		var err error
		if root, err = FindRepository(); err != nil {
			return "", err
		}
	}
	return filepath.Join(root, "sandbox"), nil
}

// prune removes entries that were not used for long: each go.mod makes a new
// one of 250 MB. An entry being built or in use is young, and stays.
func prune(cache string, now time.Time) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || now.Sub(info.ModTime()) < keepUnused {
			continue
		}
		path := filepath.Join(cache, entry.Name())
		key := strings.TrimSuffix(entry.Name(), ".partial")
		if !entry.IsDir() || !isKey(key) || !unlocked(filepath.Join(cache, key+".lock")) {
			continue
		}
		_ = os.RemoveAll(path)
		_ = os.Remove(filepath.Join(cache, key+".lock"))
	}
}

// isKey says whether name is of the form cacheKey makes, so that pruning does
// not touch what somebody else put into the directory.
func isKey(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// unlocked says whether no process holds the lock at path.
func unlocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
