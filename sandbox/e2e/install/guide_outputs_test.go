package install

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// step is a fence of commands in a document, and the output that follows it there,
// if any.
type step struct{ commands, output string }

var fenceOf = regexp.MustCompile("(?m)^```(sh|text)\n((?s:.*?))^```$")

// stepsBetween returns the commands of a document from one line of it to another.
func stepsBetween(t *testing.T, path, from, to string) []step {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, begun := strings.Cut(string(content), from)
	text, _, ended := strings.Cut(text, to)
	if !begun || !ended {
		t.Fatalf("%s has no %q, or no %q after it", path, from, to)
	}
	var steps []step
	for _, match := range fenceOf.FindAllStringSubmatch(text, -1) {
		if match[1] == "sh" {
			steps = append(steps, step{commands: match[2]})
		} else {
			steps[len(steps)-1].output = match[2]
		}
	}
	return steps
}

// requirePrinted fails the test unless a command prints what the document shows
// below it, but for ages and generated names. What only looks is repeated until it
// sees what the commands before lead to.
func requirePrinted(t *testing.T, s step) {
	t.Helper()
	want := shownOutput(s.output)
	if !strings.Contains(s.commands, " get ") {
		if diff := cmp.Diff(want, shownOutput(e2etest.Shell(t, s.commands))); diff != "" {
			t.Errorf("%s(-guide +printed):\n%s", s.commands, diff)
		}
		return
	}
	e2etest.Eventually(t, e2etest.Patience, s.commands, func(ctx context.Context) error {
		got, err := e2etest.TryShell(ctx, s.commands)
		if diff := cmp.Diff(want, shownOutput(got)); err == nil && diff != "" {
			err = fmt.Errorf("(-guide +printed):\n%s", diff)
		}
		return err
	})
}

var (
	colour        = regexp.MustCompile("\x1b\\[[0-9;]*m")
	generatedName = regexp.MustCompile(`-[0-9a-f]{8,10}(?:-[a-z0-9]{5})?\b`)
	age           = regexp.MustCompile(`(^|\s)(?:\d+[dhms])+(\s|$)`)
	spaces        = regexp.MustCompile(` +`)
)

// shownOutput returns the lines of an output with what differs from run to run
// replaced. KEDA does not run here, so that of a ScaledObject only the name counts.
func shownOutput(text string) []string {
	var lines []string
	for line := range strings.Lines(colour.ReplaceAllString(text, "")) {
		line = generatedName.ReplaceAllString(line, "-HASH")
		line = age.ReplaceAllString(line, "${1}AGE$2")
		line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
		if name, status, _ := strings.Cut(line, " "); strings.HasPrefix(name, "scaledobject.") && status != "created" {
			line = name
		}
		lines = append(lines, line)
	}
	return lines
}
