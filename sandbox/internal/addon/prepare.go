package addon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// Host is this machine, on which an add-on is prepared.
type Host struct {
	// Repository is the root of the source tree.
	Repository string
	// Cache is the directory of the build cache; empty means its default.
	Cache string
	// Dir is the sandbox's directory for this add-on's programs.
	Dir string
	// Version is the release that was asked for, empty if none was.
	Version string
	// Programs are paths of programs to take instead of building them.
	Programs Paths
	// Kubernetes is the multi-call binary of the control plane and of kubectl; its first
	// argument, or the name it is called by, selects one.
	Kubernetes string
	// Progress is told what is going on; nil discards it.
	Progress *progress.Printer
}

// Fetch prepares what an add-on takes from elsewhere: it is built or downloaded into
// the cache if it is not in it.
func (a Addon) Fetch(ctx context.Context, h Host) (Prepared, error) {
	prepared := Prepared{Paths: make(Paths)}
	if a.Upstream != nil {
		source := *a.Upstream
		source.Name, source.Version = a.Name, h.Version
		source.Dir = filepath.Join(h.Repository, "sandbox", "addons", source.Dir)
		entry, err := build.Ensure(ctx, source, h.Cache, h.Progress)
		if err != nil {
			return prepared, err
		}
		prepared.Version = entry.Version
		for _, pkg := range source.Packages {
			prepared.Paths[path.Base(pkg)] = entry.Program(path.Base(pkg))
		}
		for name, file := range a.Files {
			prepared.Paths[name] = entry.File(file)
		}
	}
	if a.Prepare == nil {
		return prepared, nil
	}
	more, err := a.Prepare(ctx, h)
	maps.Copy(prepared.Paths, more.Paths)
	prepared.Images = more.Images
	return prepared, err
}

// Ensure prepares all of an add-on: this project's own programs as well.
func (a Addon) Ensure(ctx context.Context, h Host) (Prepared, error) {
	prepared, err := a.Fetch(ctx, h)
	if err != nil {
		return prepared, err
	}
	for _, p := range a.Programs {
		if p.Built == "" {
			continue
		}
		if prepared.Paths[p.Name], err = h.program(ctx, p.Name, ".", "./cmd/"+p.Name); err != nil {
			return prepared, err
		}
	}
	for _, name := range a.StandIns {
		if prepared.Paths[name], err = h.program(ctx, name, "sandbox", "./cmd/images/"+name); err != nil {
			return prepared, err
		}
	}
	own, err := a.ImagesFrom(prepared.Paths)
	prepared.Images = append(prepared.Images, own...)
	return prepared, err
}

// program returns the path of the sandbox's copy of one of this project's programs: a
// copy of Programs[name] if that is given, or else built from a package of the Go module
// in a directory of the repository.
func (h Host) program(ctx context.Context, name, module, pkg string) (string, error) {
	target := filepath.Join(h.Dir, name)
	if err := os.MkdirAll(h.Dir, 0o755); err != nil {
		return "", err
	}
	given, ok := h.Programs[name]
	if !ok {
		return target, build.Program(ctx, filepath.Join(h.Repository, module), pkg, target, h.Progress)
	}
	if err := build.CheckStatic(given); err != nil {
		return "", fmt.Errorf("program %s: %w", name, err)
	}
	// A copy, so that rebuilding the original does not change a running sandbox.
	return target, build.CopyFile(given, target, 0o755)
}

// ImagesFrom returns Images with paths in place of the names of files.
func (a Addon) ImagesFrom(paths Paths) ([]image.Entry, error) {
	entries := slices.Clone(a.Images)
	for i := range entries {
		files := make(map[string]string)
		for inside, name := range entries[i].Image.Files {
			file, ok := paths[name]
			if !ok {
				return nil, fmt.Errorf("image %s has %s from %q: it must be one of %s",
					entries[i].Repository, inside, name, strings.Join(slices.Sorted(maps.Keys(paths)), ", "))
			}
			files[inside] = file
		}
		entries[i].Image.Files = files
	}
	return entries, nil
}
