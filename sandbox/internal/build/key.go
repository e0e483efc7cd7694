package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// key names the cache entry of a source: it changes with everything that goes into
// the entry. go.mod and go.sum pin the sources of all other modules, which need not
// be read.
func (s Source) key(toolchain string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%q\n%q\n%q\n%q\n%q\n", toolchain, s.Upstream, s.Version, s.Packages, s.Stamp, s.Files)
	if s.OwnSums {
		_, _ = fmt.Fprintln(h, "own sums")
	}
	var files []string
	if s.Version == "" {
		sources, err := filepath.Glob(filepath.Join(s.Dir, "*.go"))
		if err != nil {
			return "", err
		}
		slices.Sort(sources)
		mod := "go.mod"
		if s.ModFile != "" {
			mod = s.ModFile
		}
		files = slices.Concat(sources, []string{filepath.Join(s.Dir, mod), filepath.Join(s.Dir, strings.TrimSuffix(mod, ".mod")+".sum")})
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		// The length keeps two files from being confused with one.
		_, _ = fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(content))
		_, _ = h.Write(content)
	}
	return s.Name + "-" + hex.EncodeToString(h.Sum(nil))[:keyLength], nil
}

const keyLength = 16

// isKey says whether name is of the form that key makes, so that pruning does not
// remove other files in the directory.
func isKey(name string) bool {
	_, hash, _ := cutLast(name, "-")
	return len(hash) == keyLength && strings.Trim(hash, "0123456789abcdef") == ""
}

// cutLast is strings.Cut at the last separator; without one, all is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
