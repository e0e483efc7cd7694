package addon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
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
	// UpstreamOnly leaves this project's own programs unbuilt: only the build cache
	// is to be filled.
	UpstreamOnly bool
	// Progress is told what is going on; nil discards it.
	Progress *progress.Printer
}

// Addons returns a path in the directory of the add-ons' sources.
func (h Host) Addons(path ...string) string {
	return filepath.Join(append([]string{h.Repository, "sandbox", "addons"}, path...)...)
}

// Upstream returns another project's programs in the version that was asked for, and
// builds them into the cache if they are not in it.
func (h Host) Upstream(ctx context.Context, source build.Source) (*build.Entry, error) {
	source.Version = h.Version
	return build.Ensure(ctx, source, h.Cache, h.Progress)
}

// Copier is a program that is cp when it is called by that name, for images that an
// init container copies files from.
const Copier = "cp"

// Copier returns the program of that name.
func (h Host) Copier(ctx context.Context) (string, error) {
	return h.Project(ctx, Copier, "sandbox", "./cmd/cp")
}

// Project returns the path of the sandbox's copy of one of this project's programs: a
// copy of Programs[name] if that is given, or else built from pkg, a package of the
// Go module in the directory module of the repository.
func (h Host) Project(ctx context.Context, name, module, pkg string) (string, error) {
	target := filepath.Join(h.Dir, name)
	if h.UpstreamOnly {
		return target, nil
	}
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
