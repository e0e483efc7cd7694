// Package page reads the fences of Markdown pages. Tests and demos take from there, by
// the names of the fences, the commands and the YAML that a reader of the page has.
package page

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Fence is a fenced block of a page.
type Fence struct {
	// Language of the text, such as sh.
	Language string
	// Name is the fence's own in its page, or empty: install in ```sh {install}, entry in
	// ```yaml {fragment entry}.
	Name string
	// Fragment is true if the author marks YAML as a part of something else, as in
	// ```yaml {fragment}: it is not a manifest to apply.
	Fragment bool
	// Line is the number of the text's first line in the page, counted from 1.
	Line int
	// Text is without the indentation of a fence in a list.
	Text string
}

// Parse returns the fences of a page. Two fences of one name are an error.
func Parse(markdown string) ([]Fence, error) {
	var (
		found  []Fence
		open   *Fence
		indent string
		number int
	)
	named := map[string]bool{}
	for line := range strings.Lines(markdown) {
		number++
		line = strings.TrimSuffix(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			indent = line[:len(line)-len(trimmed)]
			language, attributes, _ := strings.Cut(strings.TrimPrefix(trimmed, "```"), " ")
			open = &Fence{Language: language, Line: number + 1}
			for _, word := range strings.Fields(strings.Trim(attributes, "{} ")) {
				switch {
				case word == "fragment":
					open.Fragment = true
				case open.Name != "" || named[word]:
					return nil, fmt.Errorf("line %d: %s is the name of another fence, or a second name", number, word)
				default:
					open.Name, named[word] = word, true
				}
			}
		case open != nil && strings.HasPrefix(trimmed, "```"):
			found = append(found, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("the fence of line %d is not closed", open.Line-1)
	}
	return found, nil
}

// Step is a fence of commands, and the output that the page shows below it, if any.
type Step struct{ Name, Commands, Output string }

// Steps returns the commands among fences.
func Steps(fences []Fence) []Step {
	var steps []Step
	for _, f := range fences {
		switch {
		case f.Language == "sh":
			steps = append(steps, Step{Name: f.Name, Commands: f.Text})
		case f.Language == "text" && len(steps) > 0:
			steps[len(steps)-1].Output = f.Text
		}
	}
	return steps
}

// Named returns the steps with these names, in this order.
func Named(steps []Step, names ...string) ([]Step, error) {
	var found []Step
	for _, name := range names {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fence sh {%s}", name)
		}
		found = append(found, steps[i])
	}
	return found, nil
}

// List returns the pages of a repository: those at its top, and all of docs/ and examples/.
func List(repository fs.FS) ([]string, error) {
	pages, err := fs.Glob(repository, "*.md")
	for _, dir := range []string{"docs", "examples"} {
		err = errors.Join(err, fs.WalkDir(repository, dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			}
			return err
		}))
	}
	return pages, err
}
