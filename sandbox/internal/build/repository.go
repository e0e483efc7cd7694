package build

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// modulePath is the module of this package, whose sources are built.
const modulePath = "github.com/kedify/argo-rollouts-plugin/sandbox"

// FindRepository returns the root of the source tree: the directory that holds
// sandbox/go.mod. It looks upwards from the working directory, then from the
// running program, and last where this package was compiled.
func FindRepository() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		if root, ok := repositoryAbove(start); ok {
			return root, nil
		}
	}
	return "", fmt.Errorf("the sandbox's sources were not found above %s: run this in a clone of the repository",
		strings.Join(starts, " or "))
}

// repositoryAbove returns dir or the nearest directory above it that is the
// root of the source tree. One that cannot be read is not.
func repositoryAbove(dir string) (string, bool) {
	for {
		content, err := os.ReadFile(filepath.Join(dir, "sandbox", "go.mod"))
		if err == nil && declaresModule(string(content), modulePath) {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// declaresModule says whether the text of a go.mod file declares path.
func declaresModule(gomod, path string) bool {
	for line := range strings.Lines(gomod) {
		if strings.TrimSpace(line) == "module "+path {
			return true
		}
	}
	return false
}
