// Package guidetest is for end-to-end tests of the documents that people follow: it
// runs their commands, compares the output with the one shown, and makes the release
// whose files they download.
package guidetest

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Step is a fenced block of commands in a document, and the output shown after it, if
// any.
type Step = sourceguide.Step

// StepsBetween returns the commands of a document, such as docs/guide.md, between two
// of its lines.
func StepsBetween(t testing.TB, document, from, to string) []Step {
	t.Helper()
	_, text, begun := strings.Cut(read(t, document), from)
	text, _, ended := strings.Cut(text, to)
	if !begun || !ended {
		t.Fatalf("%s has no %q, or no %q after it", document, from, to)
	}
	return sourceguide.Parse(text)
}

// Commands returns the commands of a document, except for those between two of its
// lines. Each is one line: continued lines are joined.
func Commands(t testing.TB, document, from, to string) []string {
	t.Helper()
	text := read(t, document)
	before, rest, begun := strings.Cut(text, from)
	_, after, ended := strings.Cut(rest, to)
	if !begun || !ended {
		t.Fatalf("%s has no %q, or no %q after it", document, from, to)
	}
	var commands []string
	for _, s := range sourceguide.Parse(before + after) {
		commands = append(commands, strings.Split(strings.TrimSpace(continued.ReplaceAllString(s.Commands, "")), "\n")...)
	}
	return commands
}

var continued = regexp.MustCompile(`\\\n *`)

var manifestFence = regexp.MustCompile("(?m)^```yaml( {fragment})?\n((?s:.*?))^```$")

// Fragment returns the first part of a manifest that a document shows after one of its
// lines.
func Fragment(t testing.TB, document, from string) string {
	t.Helper()
	return firstFence(t, document, from, " {fragment}")
}

// Manifest returns the first manifest that a document shows after one of its lines.
func Manifest(t testing.TB, document, from string) string {
	t.Helper()
	return firstFence(t, document, from, "")
}

// firstFence returns the first fenced YAML after a line of a document that has the
// mark.
func firstFence(t testing.TB, document, from, mark string) string {
	t.Helper()
	_, text, begun := strings.Cut(read(t, document), from)
	for _, match := range manifestFence.FindAllStringSubmatch(text, -1) {
		if begun && match[1] == mark {
			return match[2]
		}
	}
	t.Fatalf("%s has no yaml%s after %q", document, mark, from)
	return ""
}

// RequireLines fails the test where a document does not have these commands, each on a line
// of its own.
func RequireLines(t testing.TB, document string, commands ...string) {
	t.Helper()
	text := read(t, document)
	for _, line := range commands {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s has not the line %s", document, line)
		}
	}
}

func read(t testing.TB, document string) string {
	t.Helper()
	content, err := os.ReadFile(e2etest.Repository(t, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// RequirePrinted fails the test unless a command prints what the document shows below
// it, except for ages and generated names. A "get" command is repeated until it shows
// the effect of the commands before it.
func RequirePrinted(t testing.TB, s Step) {
	t.Helper()
	want := sourceguide.Lines(s.Output)
	if !strings.Contains(s.Commands, " get ") {
		if diff := cmp.Diff(want, sourceguide.Lines(e2etest.Shell(t, s.Commands))); diff != "" {
			t.Errorf("%s(-guide +printed):\n%s", s.Commands, diff)
		}
		return
	}
	e2etest.Eventually(t, e2etest.Patience, s.Commands, func(ctx context.Context) error {
		got, err := e2etest.TryShell(ctx, s.Commands)
		if diff := cmp.Diff(want, sourceguide.Lines(got)); err == nil && diff != "" {
			err = fmt.Errorf("(-guide +printed):\n%s", diff)
		}
		return err
	})
}
