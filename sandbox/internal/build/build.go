// Package build makes the programs a sandbox runs. Other projects' programs take long
// to compile and seldom change: they are built once, each project into a cache entry
// of its own. This project's programs are small, and built anew each time.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

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

// Ensure returns the entry of a source in the cache, building it when it is missing;
// an empty cache means DefaultCache. Processes that build the same entry wait for one
// another. An interrupted build leaves no entry, and what was compiled stays in Go's
// own build cache.
func Ensure(ctx context.Context, source Source, cache string, out *progress.Printer) (*Entry, error) {
	defer out.Done()
	if cache == "" {
		var err error
		if cache, err = DefaultCache(); err != nil {
			return nil, err
		}
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	toolchain, err := goTool{dir: source.Dir}.output(ctx, "env", "GOVERSION", "GOHOSTOS", "GOHOSTARCH")
	if err != nil {
		return nil, err
	}
	downloads := func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			out.Status("%s: downloading %s", source.Name, module)
		}
	}
	if source.Version != "" {
		// "v1.9" stands for the latest release of that series, which changes.
		found, err := source.locate(ctx, downloads)
		if err != nil {
			return nil, err
		}
		source.Version = found.version
	}
	key, err := source.key(toolchain)
	if err != nil {
		return nil, fmt.Errorf("build cache key: %w", err)
	}
	dir := filepath.Join(cache, key)
	if entry, ok := present(dir); ok {
		return entry, nil
	}

	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock", out)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if entry, ok := present(dir); ok { // built while this run waited
		return entry, nil
	}

	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return nil, err
	}
	found, err := source.locate(ctx, downloads)
	if err == nil {
		err = found.build(ctx, partial, downloads, out)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(partial))
	}
	// Remove what an interrupted removal of this entry has left.
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	// The rename makes the entry appear whole or not at all.
	if err := os.Rename(partial, dir); err != nil {
		return nil, fmt.Errorf("build cache: %w", err)
	}
	prune(cache, time.Now())
	return &Entry{Dir: dir, Version: found.version}, nil
}

// versionFile holds the release that an entry was built from.
const versionFile = "version"

// present returns the entry in a directory of the cache, and notes its use.
func present(dir string) (*Entry, bool) {
	version, err := os.ReadFile(filepath.Join(dir, versionFile))
	if err != nil {
		return nil, false
	}
	// Chtimes is not allowed in a cache shared by several users, where it is not
	// needed.
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	return &Entry{Dir: dir, Version: strings.TrimSpace(string(version))}, true
}

// build fills the directory of an entry.
func (r *release) build(ctx context.Context, dir string, downloads func(string), out *progress.Printer) error {
	if len(r.Packages) > 0 {
		if err := r.compile(ctx, filepath.Join(dir, "bin"), downloads, out); err != nil {
			return err
		}
	}
	if err := r.copyFiles(filepath.Join(dir, "files")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, versionFile), []byte(r.version+"\n"), 0o644)
}

// compile builds the programs into a directory.
func (r *release) compile(ctx context.Context, dir string, downloads func(string), out *progress.Printer) error {
	out.Say("building %s %s, once", r.Name, r.version)
	start := time.Now()
	var list strings.Builder
	if err := r.tool.run(ctx, &list, downloads, append([]string{"list", "-deps"}, r.Packages...)...); err != nil {
		return err
	}
	known := make(map[string]bool)
	for line := range strings.Lines(list.String()) {
		known[strings.TrimSpace(line)] = true
	}
	compiled := newCount(known)
	stop := every(time.Second, func() {
		out.Status("building %s: %s, %s", r.Name, compiled, progress.Seconds(time.Since(start)))
	})
	defer stop()
	stamp := "-s -w " + strings.NewReplacer("{version}", r.version, "{number}", strings.TrimPrefix(r.version, "v")).Replace(r.Stamp)
	args := append([]string{"build", "-v", "-buildvcs=false", "-trimpath", "-ldflags", stamp, "-o", dir + "/"}, r.Packages...)
	return r.tool.run(ctx, io.Discard, compiled.add, args...)
}

// copyFiles copies the files of Upstream. The module cache is read-only; the
// copies are not, so that the cache can be removed with a plain rm -r.
func (r *release) copyFiles(to string) error {
	for _, pattern := range r.Files {
		paths, err := filepath.Glob(filepath.Join(r.root, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			return fmt.Errorf("%s %s: no file %s in %s", r.Name, r.version, pattern, r.root)
		}
		for _, path := range paths {
			name, err := filepath.Rel(r.root, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("%s %s: %w", r.Name, r.version, err)
			}
			target := filepath.Join(to, name)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(target, content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
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

// Program builds one of the project's own programs to the file out: pkg is a package
// path relative to the module in dir, such as ./cmd/sandbox. Version control
// information is left out: reading it fails in a clone that another user owns.
func Program(ctx context.Context, dir, pkg, out string, p *progress.Printer) error {
	start := time.Now()
	defer p.Done()
	stop := every(time.Second, func() {
		if elapsed := time.Since(start); elapsed > 2*time.Second {
			p.Status("building %s, %s", pkg, progress.Seconds(elapsed))
		}
	})
	defer stop()
	_, err := goTool{dir: dir}.output(ctx, "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	return err
}
