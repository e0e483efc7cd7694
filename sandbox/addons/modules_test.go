package addons

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// requirement is a line of a go.mod file: a module and its version.
var requirement = regexp.MustCompile(`(?m)^\t([^\s]+) (v[^\s]+)( // indirect)?$`)

// exporters are modules that Kubernetes requires in versions of its own. They are compiled
// in seconds; other versions of them would have all of Kubernetes compiled anew.
var exporters = regexp.MustCompile(`^(go\.opentelemetry\.io/(otel/exporters|proto)/.*|github\.com/(grpc-ecosystem/grpc-gateway/v2|cenkalti/backoff/v\d))$`)

// Modules of the repository require a common dependency in the same version, so that
// it is compiled once. If this test fails, `go get` what the message says in the
// module that lags behind, or set OwnVersions of the add-on whose programs need others.
func TestModulesShareVersions(t *testing.T) {
	root, err := build.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	var own []string // modules that require versions of their own
	for _, a := range All() {
		if a.Upstream != nil && a.Upstream.OwnVersions {
			own = append(own, filepath.Join("sandbox", "addons", a.Upstream.Dir, "go.mod"))
		}
	}
	type use struct{ version, file string }
	first := make(map[string]use)
	var compared int
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() && (name == "tools" || name == "bin" || name == "dist" || strings.HasPrefix(entry.Name(), ".") && path != root) {
			return fs.SkipDir // linters and the like, which are programs of their own
		}
		if entry.Name() != "go.mod" || slices.Contains(own, name) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range requirement.FindAllStringSubmatch(string(content), -1) {
			module, version := match[1], match[2]
			if exporters.MatchString(module) {
				continue
			}
			other, ok := first[module]
			if !ok {
				first[module] = use{version, name}
				continue
			}
			compared++
			if other.version != version {
				t.Errorf("%s: %s in %s, %s in %s: compiled twice", module, other.version, other.file, version, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if compared < 100 {
		t.Errorf("only %d requirements are in two modules: were they read?", compared)
	}
}
