package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// cacheKey names the cache entry for the cluster binaries: it changes with
// whatever goes into them. The versions of all modules are in go.mod and
// go.sum, so their sources need not be read.
func cacheKey(module, toolchain string) (string, error) {
	sources, err := filepath.Glob(filepath.Join(module, "cmd", "cluster", "*.go"))
	if err != nil {
		return "", err
	}
	if len(sources) == 0 {
		return "", fmt.Errorf("no Go files in %s", filepath.Join(module, "cmd", "cluster"))
	}
	slices.Sort(sources)

	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%q\n", toolchain, linkerFlags)
	for _, path := range append([]string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}, sources...) {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		// The length keeps two files from being confused with one.
		_, _ = fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(content))
		_, _ = h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
