package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// .ci/run ends with the times of the tests and a table of its steps, whether it passes
// or a step fails. A stand-in for make is all that it runs here.
func TestCIRunEndsWithTheSecondsOfEachStep(t *testing.T) {
	for name, tt := range map[string]struct {
		fails    string // what make fails at
		last     string // the table's last line
		status   int
		hasTimes bool
	}{
		"passes":           {"nothing", "the rest of what runs beside", 0, true},
		"a test fails":     {"e2e", "end-to-end tests (failed)", 2, true},
		"one beside fails": {"race", "the rest of what runs beside (failed)", 2, true},
		"the first fails":  {"build", "programs (failed)", 2, false},
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
			status := 0
			if exit := new(exec.ExitError); errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			text := string(output)
			equal(t, "exit status", tt.status, status)
			equal(t, "times of tests", tt.hasTimes, strings.Contains(text, "\ntimes of new\n"))
			_, table, found := strings.Cut(text, "\n=== seconds of each step, ")
			if !found || !regexp.MustCompile(`^\d+ in all; .+\n(?: +\d+  .+\n)+$`).MatchString(table) || !strings.HasSuffix(table, "  "+tt.last+"\n") {
				t.Errorf("want it to end with a table of steps, the last of them %q:\n%s", tt.last, text)
			}
			if shown := strings.Count(text, "=== the rest of what runs beside: wait") + strings.Count(text, "=== what ran beside, as far as it came"); shown != 1 {
				t.Errorf("what ran beside is shown %d times, want once:\n%s", shown, text)
			}
			equal(t, "steps in the table", strings.Count(text, ": done in ")+strings.Count(text, ": failed after "), strings.Count(table, "\n")-1)
		})
	}
}
