package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListFitsTheSources: each mutation of the list can be made, and its tests are
// there.
func TestListFitsTheSources(t *testing.T) {
	root := filepath.Join("..", "..")
	list, err := readList(filepath.Join(root, listFile))
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, m := range list {
		if err := m.check(root); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		for _, directory := range m.packages() {
			if isEndToEnd(directory) {
				ends++
			}
		}
	}
	if len(list) < 20 || ends < 6 {
		t.Errorf("%d mutations, %d of them with end-to-end tests; expected 20 or more, and 6", len(list), ends)
	}
}

func TestFaultyLists(t *testing.T) {
	const good = "- {name: a, breaks: It breaks., file: a.go, old: x, new: y, tests: {.: [TestA]}}\n"
	file := filepath.Join(t.TempDir(), "mutants.yaml")
	for name, tc := range map[string]struct{ text, says string }{
		"mistyped key":       {strings.Replace(good, "breaks", "braeks", 1), `unknown field "braeks"`},
		"name":               {strings.Replace(good, "name: a", "name: a b", 1), "expected lower-case words"},
		"name listed twice":  {good + good, "listed twice"},
		"nothing broken":     {strings.Replace(good, "It breaks.", "''", 1), "breaks is empty"},
		"file elsewhere":     {strings.Replace(good, "file: a.go", "file: ../a.go", 1), "a Go file of the product"},
		"file of a test bed": {strings.Replace(good, "file: a.go", "file: sandbox/a.go", 1), "a Go file of the product"},
		"file of YAML":       {strings.Replace(good, "file: a.go", "file: a.yaml", 1), "a Go file of the product"},
		"old is new":         {strings.Replace(good, "old: x", "old: y", 1), "the same as new"},
		"no tests":           {strings.Replace(good, ".: [TestA]", "", 1), "tests is empty"},
		"package of nothing": {strings.Replace(good, "[TestA]", "[]", 1), "names of tests"},
		"subtest":            {strings.Replace(good, "TestA", "TestA/b", 1), "without subtest"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := readList(file); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want an error that says %q", err, tc.says)
			}
		})
	}
	if err := os.WriteFile(file, []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readList(file); err != nil {
		t.Error(err)
	}
}
