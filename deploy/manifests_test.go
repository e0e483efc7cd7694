package deploy_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A kustomization leaves out no file beside it, which nobody would notice.
func TestKustomizationsLeaveNothingOut(t *testing.T) {
	found := 0
	for _, path := range slices.Concat(yamlFiles(t, "."), yamlFiles(t, "../examples")) {
		if filepath.Base(path) != "kustomization.yaml" {
			continue
		}
		found++
		text := readText(t, path)
		files, err := filepath.Glob(filepath.Dir(path) + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if file != path && !strings.Contains(text, "\n  - "+name+"\n") && !strings.Contains(text, "\n  - path: "+name+"\n") {
				t.Errorf("%s does not name %s", path, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d kustomizations found", found)
	}
}

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// yamlFiles lists the YAML files under root, but for test data.
func yamlFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "testdata" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext == ".yaml" || ext == ".yml" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no YAML under %s", root)
	}
	return files
}

// documents splits a YAML file at its separators; at least one is not empty.
func documents(t *testing.T, path string) [][]byte {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(readText(t, path))))
	var found [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var content any
		if yaml.Unmarshal(document, &content) == nil && content == nil {
			continue // comments only
		}
		found = append(found, document)
	}
	if len(found) == 0 {
		t.Fatalf("%s is empty", path)
	}
	return found
}

// read decodes a YAML file of one document into a Go type, with no key that
// the type does not have.
func read(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(readText(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// readLoosely decodes the keys of a YAML file that a Go type has.
func readLoosely(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readText(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
