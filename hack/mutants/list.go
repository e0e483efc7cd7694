package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// listFile is the list of mutations, in the repository.
const listFile = "hack/mutants/mutants.yaml"

// mutation is a change that breaks the product.
type mutation struct {
	// Name is unique: lower-case words with dashes.
	Name string `json:"name"`
	// Breaks says in a sentence what a user would see.
	Breaks string `json:"breaks"`
	// File is a Go file of the product. Its one occurrence of Old becomes New.
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Tests has names of tests by the directory of their package. All of them
	// have to fail.
	Tests map[string][]string `json:"tests"`
}

// packages returns the directories of the packages with tests that have to fail.
func (m mutation) packages() []string { return slices.Sorted(maps.Keys(m.Tests)) }

// endToEnd returns the directories among packages that have end-to-end tests.
func (m mutation) endToEnd() []string {
	return slices.DeleteFunc(m.packages(), func(directory string) bool { return !isEndToEnd(directory) })
}

// isEndToEnd tells whether the tests in a directory run the product's programs.
func isEndToEnd(directory string) bool {
	return directory == "sandbox/e2e" || strings.HasPrefix(directory, "sandbox/e2e/")
}

// test is one test of a package.
type test struct{ directory, name string }

func (t test) String() string { return t.directory + " " + t.name }

// tests returns the tests that have to fail.
func (m mutation) tests() []test {
	var all []test
	for _, directory := range m.packages() {
		for _, name := range m.Tests[directory] {
			all = append(all, test{directory, name})
		}
	}
	return all
}

// readList reads the list of mutations. It does not say whether they fit the sources, as
// check does.
func readList(file string) ([]mutation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []mutation
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	seen := map[string]bool{}
	for i, m := range list {
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("%s: mutation %d, %q: %w", file, i+1, m.Name, err)
		}
		if seen[m.Name] {
			return nil, fmt.Errorf("%s: mutation %q is listed twice: give each a name of its own", file, m.Name)
		}
		seen[m.Name] = true
	}
	return list, nil
}

var (
	mutationName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	testName     = regexp.MustCompile(`^Test[A-Za-z0-9_]+$`)
)

func (m mutation) validate() error {
	switch {
	case !mutationName.MatchString(m.Name):
		return fmt.Errorf("name is %q: expected lower-case words with dashes", m.Name)
	case m.Breaks == "":
		return fmt.Errorf("breaks is empty: expected a sentence that says what a user would see")
	case !filepath.IsLocal(m.File) || !strings.HasSuffix(m.File, ".go") || strings.HasPrefix(m.File, "sandbox/"):
		return fmt.Errorf("file is %q: expected a Go file of the product", m.File)
	case m.Old == "" || m.Old == m.New:
		return fmt.Errorf("old is empty or the same as new: expected text of %s, and what to put in its place", m.File)
	case len(m.Tests) == 0:
		return fmt.Errorf("tests is empty: expected the tests that have to fail, by the directory of their package")
	}
	for directory, names := range m.Tests {
		if !filepath.IsLocal(directory) || len(names) == 0 {
			return fmt.Errorf("tests[%q]: expected a directory inside the repository, and names of tests", directory)
		}
		for _, name := range names {
			if !testName.MatchString(name) {
				return fmt.Errorf("tests[%q]: %q is not the name of a test: expected one as TestGolden, without subtest", directory, name)
			}
		}
	}
	return nil
}

// apply returns File of the sources in root, as it is and as it is after the mutation.
func (m mutation) apply(root string) (before, after []byte, err error) {
	before, err = os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, nil, fmt.Errorf("the mutation is out of date: %w", err)
	}
	if n := strings.Count(string(before), m.Old); n != 1 {
		return nil, nil, fmt.Errorf("the mutation is out of date: its old text occurs %d times in %s, expected once", n, m.File)
	}
	after = []byte(strings.Replace(string(before), m.Old, m.New, 1))
	if _, err := parser.ParseFile(token.NewFileSet(), m.File, after, parser.SkipObjectResolution); err != nil {
		return nil, nil, fmt.Errorf("the mutation makes no Go of %s: %w", m.File, err)
	}
	return before, after, nil
}

// check returns why a mutation cannot be tried on the sources in root, without
// compiling anything.
func (m mutation) check(root string) error {
	if _, _, err := m.apply(root); err != nil {
		return err
	}
	for _, t := range m.tests() {
		if err := t.check(root); err != nil {
			return err
		}
	}
	return nil
}

func (t test) check(root string) error {
	files, err := filepath.Glob(filepath.Join(root, t.directory, "*_test.go"))
	if err != nil {
		return err
	}
	declaration := []byte("\nfunc " + t.name + "(t *testing.T) {")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), string(declaration)) {
			return nil
		}
	}
	return fmt.Errorf("there is no %s in %s: expected a test that git knows of", t.name, t.directory)
}
