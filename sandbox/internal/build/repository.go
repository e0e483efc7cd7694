package build

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modulePath is the module of this package, whose sources are built.
const modulePath = "github.com/kedify/argo-rollouts-plugin/sandbox"

// startDir is the working directory that this process began in: a test's is that of
// its package. Empty if it is not known.
var startDir, _ = os.Getwd()

// FindRepository returns the root of the source tree: the directory that holds
// sandbox/go.mod. It looks upwards from the working directory, then from the
// running program, then from the working directory that this process began in.
func FindRepository() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if startDir != "" {
		starts = append(starts, startDir)
	}
	for _, start := range starts {
		if root, ok := repositoryAbove(start); ok {
			return root, nil
		}
	}
	return "", fmt.Errorf("the sandbox's sources were not found above %s: run this in a clone of the repository",
		strings.Join(starts, " or "))
}

// repositoryAbove returns dir or the nearest directory above it that is the root of
// the source tree. A directory whose sandbox/go.mod cannot be read does not count.
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
