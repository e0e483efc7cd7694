// Package mutants has no code: run.sh applies the patches beside it.
package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testLine = regexp.MustCompile(`(?m)^Test: (\S+) (Test\w+)$`)

// TestPatchesFitTheSources: each patch applies, and the tests that it names are there.
// Whether these fail is for make mutants.
func TestPatchesFitTheSources(t *testing.T) {
	patches, err := filepath.Glob("*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	for _, patch := range patches {
		text, err := os.ReadFile(patch)
		if err != nil {
			t.Fatal(err)
		}
		// From the root, as git leaves out what is not in the directory that it runs in.
		apply := exec.Command("git", "apply", "--check", filepath.Join("hack", "mutants", patch))
		apply.Dir = filepath.Join("..", "..")
		if out, err := apply.CombinedOutput(); err != nil {
			t.Errorf("%s does not apply any more: make it anew (docs/contributing/development.md): %v\n%s", patch, err, out)
		}
		tests := testLine.FindAllStringSubmatch(string(text), -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test that has to fail: want lines as \"Test: internal/kube TestFields\"", patch)
		}
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s names %s, which is not in %s", patch, test[2], test[1])
			}
		}
	}
}

func hasTest(t *testing.T, directory, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
