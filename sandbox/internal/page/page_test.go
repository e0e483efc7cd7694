package page

import (
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const markdown = "# Title\n```yaml {object}\na: 1\n```\n```sh {install}\nkubectl\n```yaml\n```text\nok\n```\n" +
		"1. list\n   ```yaml\n   b:\n     c: 2\n   ```\n```yaml {fragment}\nd: 3\n```\n```yaml {fragment entry}\ne: 4\n```\n"
	// The fourth fence closes the third, as Markdown has it.
	got, err := Parse(markdown)
	if err != nil {
		t.Fatal(err)
	}
	want := []Fence{
		{Language: "yaml", Name: "object", Line: 3, Text: "a: 1\n"},
		{Language: "sh", Name: "install", Line: 6, Text: "kubectl\n"},
		{Language: "text", Line: 9, Text: "ok\n"},
		{Language: "yaml", Line: 13, Text: "b:\n  c: 2\n"},
		{Language: "yaml", Fragment: true, Line: 17, Text: "d: 3\n"},
		{Language: "yaml", Name: "entry", Fragment: true, Line: 20, Text: "e: 4\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	steps, err := Named(Steps(got), "install")
	if diff := cmp.Diff([]Step{{"install", "kubectl\n", "ok\n"}}, steps); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Named(steps, "object"); err == nil {
		t.Error("YAML is found among commands")
	}
	for wrong, want := range map[string]string{
		"```yaml\na: 1\n":                      "line 1 is not closed",
		"```sh {a}\n```\n\n```yaml {a}\n```\n": "line 4: a is the name",
		"```sh {a b}\n```\n":                   "line 1: b is the name",
	} {
		if _, err := Parse(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", wrong, err, want)
		}
	}
}

func TestList(t *testing.T) {
	deep := path.Join("docs", "how-to", "more", "c.md")
	got, err := List(fstest.MapFS{"README.md": {}, "docs/README.md": {}, "docs/a.svg": {}, deep: {}, "docs/how-to/tls.md": {}, "examples/d/README.md": {}})
	want := []string{"README.md", "docs/README.md", deep, "docs/how-to/tls.md", "examples/d/README.md"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// The fences of every page can be read.
func TestPages(t *testing.T) {
	pages, err := List(os.DirFS("../../.."))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(string(text)); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}
}
