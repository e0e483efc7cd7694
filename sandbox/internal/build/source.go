package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Source says what a cache entry is built from: programs, and files beside them, of
// one release of another project.
type Source struct {
	// Name begins the name of the cache entry, and is what progress calls it.
	Name string
	// Dir is the directory of the Go module that pins every version.
	Dir string
	// ModFile is the name of a file in Dir that is used in place of go.mod, with
	// its sums beside it. Empty means go.mod.
	ModFile string
	// Upstream is the path of the other project's module.
	Upstream string
	// Version is a release of Upstream to build from its own go.mod and go.sum
	// instead, such as "v1.9.0", or "v1.9" for the latest release of that series.
	// Empty means the one that Dir pins.
	Version string
	// OwnSums builds Upstream from its own go.mod and go.sum, as with Version: the module
	// in Dir pins Upstream, whose files pin everything else.
	OwnSums bool
	// OwnVersions says that the module in Dir requires other versions than the
	// repository's other modules of what they share. Without it, a test compares them.
	OwnVersions bool
	// Packages are the main packages to build, if any. A program has the name that
	// `go build` gives it: the last element of the package's import path.
	Packages []string
	// Stamp are linker flags, in which {version} stands for the release and
	// {number} for the same without its v, as in "-X main.version={version}".
	Stamp string
	// Files are patterns of files of Upstream, relative to its root, that are
	// kept beside the programs.
	Files []string
}

// Entry is what has been built from a Source.
type Entry struct {
	// Dir is the directory of the entry.
	Dir string
	// Version is the release, such as "v1.10.1".
	Version string
}

// Program returns the path of a program.
func (e *Entry) Program(name string) string { return filepath.Join(e.Dir, "bin", name) }

// File returns the path of one of the files of Upstream, given its path there.
func (e *Entry) File(name string) string {
	return filepath.Join(e.Dir, "files", filepath.FromSlash(name))
}

// release is a Source whose module is on this machine.
type release struct {
	Source
	tool    goTool
	version string // of Upstream
	root    string // the directory of Upstream's files
}

// locate finds, and downloads if need be, the module that a source is built
// from.
func (s Source) locate(ctx context.Context, download func(string)) (*release, error) {
	tool, module := goTool{dir: s.Dir}, s.Upstream
	if s.ModFile != "" {
		tool.modFile = filepath.Join(s.Dir, s.ModFile)
	}
	if s.Version != "" {
		if !strings.HasPrefix(s.Version, "v") || strings.ContainsAny(s.Version, " @/") {
			return nil, fmt.Errorf("%s: version %q: must be a release of %s, such as v1.2.3, or v1.2 for the latest of these", s.Name, s.Version, s.Upstream)
		}
		module += "@" + s.Version
	}
	var (
		text strings.Builder
		info struct{ Version, Dir, Error string }
	)
	err := tool.run(ctx, &text, download, "mod", "download", "-json", module)
	if parseErr := json.Unmarshal([]byte(text.String()), &info); parseErr == nil && info.Error != "" && err != nil {
		err = errors.New(info.Error) // the command's own error says only that it failed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: downloading %s: %w", s.Name, module, err)
	}
	if s.Version != "" || s.OwnSums {
		tool = goTool{dir: info.Dir}
	}
	return &release{Source: s, tool: tool, version: info.Version, root: info.Dir}, nil
}
