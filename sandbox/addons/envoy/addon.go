package envoy

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// Name of the add-on, and of its program.
const Name = "envoy"

// Addon describes Envoy: only its image.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the image " + repository + ", for kedify-proxy",
		Prepare: func(ctx context.Context, h addon.Host) (addon.Prepared, error) {
			program := h.Programs[Name]
			if program == "" {
				var err error
				if program, err = Ensure(ctx, Options{Cache: h.Cache, Progress: h.Progress}); err != nil {
					return addon.Prepared{}, err
				}
			}
			// If Envoy cannot run on this machine, that is an error now, before the
			// sandbox is up.
			e, err := entry(ctx, program)
			return addon.Prepared{Paths: addon.Paths{Name: program}, Images: []image.Entry{e}}, err
		},
		Programs: []addon.Program{{Name: Name, Variable: Variable}},
	}
}

const repository = "envoyproxy/envoy"

// entry is envoyproxy/envoy with any tag: one Envoy of this machine, at its path in
// the published image, with the libraries that it needs, as it is linked
// dynamically. It is an error when Envoy cannot run on this machine.
func entry(ctx context.Context, envoy string) (image.Entry, error) {
	needed, err := libraries(ctx, envoy)
	if err != nil {
		return image.Entry{}, fmt.Errorf("Envoy: %w; the pinned one needs glibc 2.31 or later: name another one in %s", err, Variable)
	}
	const program = "/usr/local/bin/envoy"
	files := map[string]string{program: envoy}
	var dirs []string
	for _, library := range needed {
		files[library] = library
		dirs = append(dirs, path.Dir(library))
	}
	slices.Sort(dirs)
	img := image.Image{Files: files, Entrypoint: []string{program}, Args: []string{"-c", "/etc/envoy/envoy.yaml"}}
	if len(dirs) > 0 {
		// The container lacks the loader's cache, which lists unusual directories.
		img.Env = []string{"LD_LIBRARY_PATH=" + strings.Join(slices.Compact(dirs), ":")}
	}
	return image.Entry{Repository: repository, Tag: "*", Image: img}, nil
}
