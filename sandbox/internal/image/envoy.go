package image

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Envoy is the entry of envoyproxy/envoy with any tag: one Envoy of this machine,
// at the place of the published image, with the libraries it needs, for it is
// linked dynamically. envoy is its absolute path. It is an error when Envoy
// cannot run on this machine.
func Envoy(ctx context.Context, envoy string) (Entry, error) {
	needed, err := libraries(ctx, envoy)
	if err != nil {
		return Entry{}, fmt.Errorf("Envoy: %w; the pinned one needs glibc 2.31 or later: name another one in ENVOY", err)
	}
	const program = "/usr/local/bin/envoy"
	files := map[string]string{program: envoy}
	var dirs []string
	for _, library := range needed {
		files[library] = library
		dirs = append(dirs, path.Dir(library))
	}
	slices.Sort(dirs)
	image := Image{Files: files, Entrypoint: []string{program}, Args: []string{"-c", "/etc/envoy/envoy.yaml"}}
	if len(dirs) > 0 {
		// The loader's cache, which knows of unusual places, is not there.
		image.Env = []string{"LD_LIBRARY_PATH=" + strings.Join(slices.Compact(dirs), ":")}
	}
	return Entry{Repository: "envoyproxy/envoy", Tag: "*", Image: image}, nil
}
