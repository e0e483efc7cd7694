package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// .ci/run ends with the times of the tests and a table of its steps, whether it passes
// or a step fails, and runs all tests. A stand-in for make is all that it runs here.
func TestCIRunEndsWithTheSecondsOfEachStep(t *testing.T) {
	for name, tt := range map[string]struct {
		fails  string // what make fails at
		row    string // of the table
		passes bool
	}{
		"passes":            {"nothing", "the rest of the background", true},
		"a test fails":      {"e2e", "end-to-end tests (failed)", false},
		"the first fails":   {"build", "programs (failed)", false},
		"a unit test fails": {"race", "unit tests (failed)", false},
		"lint fails":        {"lint", "lint (failed)", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := func(path, text string) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			file(".ci/run", readText(t, "../.ci/run"))
			file("bin/test-times/old.json", "of an earlier run")
			file("path/make", `#!/bin/sh
echo "$1" >>calls
case $1 in
e2e) mkdir -p bin/test-times && echo new >bin/test-times/e2e.json ;;
test-times) echo "times of $(cat bin/test-times/*)" ;;
esac
[ "$1" != "`+tt.fails+`" ] || exit 2
`)
			cmd := exec.CommandContext(t.Context(), "bash", ".ci/run")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "path")+":"+os.Getenv("PATH"))
			output, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			text := string(output)
			equal(t, "passes", tt.passes, err == nil)
			_, table, found := strings.Cut(text, "\n=== seconds of each step and of its processor time, ")
			if !found || !regexp.MustCompile(`^\d+ in all; .+\n(?: +\d+ +\d+  .+\n)+$`).MatchString(table) || !strings.Contains(table, "  "+tt.row+"\n") {
				t.Errorf("want it to end with a table of steps, among them %q:\n%s", tt.row, text)
			}
			if shown := strings.Count(text, ": wait_for_background") + strings.Count(text, "=== the steps in the background, as far as they came"); shown != 1 {
				t.Errorf("the steps in the background are shown %d times, want once:\n%s", shown, text)
			}
			if tt.passes {
				called := strings.Fields(readText(t, filepath.Join(dir, "calls")))
				for _, target := range append(packagesApart(t), "lint", "race", "e2e") {
					if !slices.Contains(called, target) {
						t.Errorf("it does not run make %s", target)
					}
				}
				equal(t, "times of tests", true, strings.Contains(text, "\ntimes of new\n"))
				equal(t, "steps in the table", strings.Count(text, ": done in "), strings.Count(table, "\n")-1)
			}
		})
	}
}

// packagesApart are the targets of the packages of end-to-end tests that make e2e leaves out.
func packagesApart(t *testing.T) []string {
	t.Helper()
	apart := regexp.MustCompile(`(?m)^APART := (.+)$`).FindStringSubmatch(readText(t, "../Makefile"))
	if apart == nil {
		t.Fatal("the Makefile does not say which packages are APART")
	}
	targets := strings.Fields(apart[1])
	for i, name := range targets {
		targets[i] = "e2e-" + name
	}
	return targets
}
