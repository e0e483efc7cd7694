// Package guidetest is for end-to-end tests of the documents that people follow: it
// runs their commands, compares the output with the one shown, and makes the release
// whose files they download.
package guidetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// Install is the page whose commands install and remove each part.
const Install = "docs/how-to/install.md"

// Fences returns the fences of a page, such as docs/how-to/install.md.
func Fences(t testing.TB, document string) []page.Fence {
	t.Helper()
	text, err := os.ReadFile(e2etest.Repository(t, document))
	if err != nil {
		t.Fatal(err)
	}
	fences, err := page.Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return fences
}

// chosen are the lines by which a reader chooses a release. UseRelease sets the variables.
var chosen = strings.NewReplacer("VERSION=vX.Y.Z\n", "", "PLATFORM=linux-amd64 # or linux-arm64\n", "",
	"URL=https://github.com/kedify/argo-rollouts-plugin/releases/download/$VERSION\n", "")

// steps returns the commands of a page, but for those that choose a release.
func steps(t testing.TB, document string) []page.Step {
	t.Helper()
	found := page.Steps(Fences(t, document))
	for i := range found {
		found[i].Commands = chosen.Replace(found[i].Commands)
	}
	return found
}

// Step returns the commands of a page with a name.
func Step(t testing.TB, document, name string) page.Step {
	t.Helper()
	found, err := page.Named(steps(t, document), name)
	if err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	return found[0]
}

// Run runs commands of a page, by their names, and returns what the last prints. In a
// placeholder's place, such as mynamespace, is what replace says: old and new in turn.
func Run(t testing.TB, document string, names []string, replace ...string) (printed string) {
	t.Helper()
	for _, name := range names {
		s := Step(t, document, name)
		printed = e2etest.Shell(t, "set -e\n"+strings.NewReplacer(replace...).Replace(s.Commands))
	}
	return printed
}

// YAML returns the YAML of a page with a name.
func YAML(t testing.TB, document, name string) string {
	t.Helper()
	fences := Fences(t, document)
	i := slices.IndexFunc(fences, func(f page.Fence) bool { return f.Language == "yaml" && f.Name == name })
	if i < 0 {
		t.Fatalf("%s has no yaml {%s}", document, name)
	}
	return fences[i].Text
}

// RequireNames fails the test unless these are all names of commands of a page, in this
// order: then no command of it is new to the tests.
func RequireNames(t testing.TB, document string, names ...string) {
	t.Helper()
	var got []string
	for _, s := range steps(t, document) {
		got = append(got, s.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("the commands of %s (-known +there):\n%s", document, diff)
	}
}

// RequirePrinted fails the test unless a command prints what the document shows below
// it, except for ages and generated names. A "get" command is repeated until it shows
// the effect of the commands before it.
func RequirePrinted(t testing.TB, s page.Step) {
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
