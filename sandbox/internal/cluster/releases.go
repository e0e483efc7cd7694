package cluster

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// checksumsFile lists the SHA-256 of every other file in releases/, in the
// form of sha256sum, as a release page does.
const checksumsFile = "checksums.txt"

// publish copies files, by the name to serve each under, into releases/ and
// lists their checksums. A name may not contain a slash.
func publish(l Layout, files map[string]string) error {
	if err := os.MkdirAll(l.Releases(), 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != filepath.Base(name) || name == "." || name == ".." || name == checksumsFile {
			return fmt.Errorf("file %q cannot be published: its name must be a plain one, and not %s", name, checksumsFile)
		}
		target := filepath.Join(l.Releases(), name)
		if err := build.CopyFile(files[name], target, 0o755); err != nil {
			return fmt.Errorf("publishing %s: %w", name, err)
		}
		sum, err := addon.SHA256(target)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(l.Releases(), checksumsFile), []byte(sums.String()), 0o644)
}

// releasesHandler serves the files in dir and logs each request, so that a
// test can tell whether the controller has downloaded the plugin.
func releasesHandler(dir string, log *slog.Logger) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Info("request", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
		files.ServeHTTP(w, r)
	})
}
