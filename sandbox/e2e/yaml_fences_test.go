package e2e

import (
	"fmt"
	"strings"
)

// fence is a piece of YAML in a Markdown file.
type fence struct {
	// line is the number of its first line in the file, counted from 1.
	line int
	// fragment is true if the author marks the YAML as a part of something else, as
	// in ```yaml {fragment}: it is not a manifest to apply.
	fragment bool
	text     string
}

// fences returns the ```yaml fences of a Markdown text. A fence inside a list
// is indented; its indentation is not part of the YAML.
func fences(markdown string) ([]fence, error) {
	var (
		found  []fence
		open   *fence
		indent string
		number int
	)
	for line := range strings.Lines(markdown) {
		number++
		line = strings.TrimSuffix(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(trimmed, "```"):
			language, attributes, _ := strings.Cut(strings.TrimPrefix(trimmed, "```"), " ")
			indent = line[:len(line)-len(trimmed)]
			open = &fence{line: number + 1, fragment: strings.Contains(attributes, "fragment")}
			if language != "yaml" && language != "yml" {
				open.line = 0 // not YAML, but its end has to be found
			}
		case open != nil && strings.HasPrefix(trimmed, "```"):
			if open.line > 0 {
				found = append(found, *open)
			}
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("the fence of line %d is not closed", open.line-1)
	}
	return found, nil
}
