// Package docstest reads the pages of the documentation, for tests of what they show.
package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Fence is a fenced block of a page. Its first line is one of
//
//	```sh
//	```sh {NAME}
//	```yaml {fragment}
//	```yaml {fragment NAME}
type Fence struct {
	// Language is what the fence says first.
	Language string
	// Fragment marks a part of a manifest.
	Fragment bool
	// Name is unique in the page; tests find a fence by it.
	Name string
	// Text is without the indentation of the list that the fence is in.
	Text string
}

var fence = regexp.MustCompile("(?m)^( *)```([^\n]*)\n((?s:.*?))^ *```$")

// Fences returns the fences of a page's text.
func Fences(text string) []Fence {
	var found []Fence
	for _, match := range fence.FindAllStringSubmatch(text, -1) {
		language, marks, _ := strings.Cut(match[2], " ")
		f := Fence{Language: language}
		for _, mark := range strings.Fields(strings.Trim(marks, "{}")) {
			if mark == "fragment" {
				f.Fragment = true
			} else {
				f.Name = strings.TrimSpace(f.Name + " " + mark)
			}
		}
		for line := range strings.Lines(match[3]) {
			f.Text += strings.TrimPrefix(line, match[1])
		}
		found = append(found, f)
	}
	return found
}

// WithoutFences returns the text of a page without its fences.
func WithoutFences(text string) string { return fence.ReplaceAllString(text, "") }

// Root returns the directory of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "docs", "README.md")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above has docs/README.md")
		}
	}
}

// Pages returns every Markdown file below a directory, as Files does.
func Pages(t testing.TB, root string) []string {
	t.Helper()
	return Files(t, root, ".md")
}

// Files returns every file below a directory that has one of the extensions, relative to the
// directory, but for what is built, and test data. An empty extension is a name without one.
func Files(t testing.TB, root string, extensions ...string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, entry.Name()):
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains(extensions, filepath.Ext(file)):
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %q below %s: %v", extensions, root, err)
	}
	return files
}

// Read returns the text of a file of the repository, such as docs/how-to/tls.md.
func Read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Named returns the text of a page's fence of a name.
func Named(t testing.TB, page, name string) string {
	t.Helper()
	for _, f := range Fences(Read(t, page)) {
		if f.Name == name {
			return f.Text
		}
	}
	t.Fatalf("%s has no fence {%s}", page, name)
	return ""
}

// Table returns the rows of the page's table with a head, such as "| flag | default |".
func Table(t testing.TB, page, head string) [][]string {
	t.Helper()
	_, table, found := strings.Cut("\n"+Read(t, page), "\n"+head+"\n")
	if !found || strings.Contains(table, "\n"+head+"\n") {
		t.Fatalf("%s has no table %s, or two", page, head)
	}
	var rows [][]string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var row []string
		for _, cell := range strings.Split(strings.Trim(line, "|\n"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows[1:] // below the line of dashes
}

var quoted = regexp.MustCompile("`([^`]+)`")

// Quoted returns the words in backquotes of cells of a table.
func Quoted(cells ...string) []string {
	var words []string
	for _, cell := range cells {
		for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
			words = append(words, match[1])
		}
	}
	return words
}
