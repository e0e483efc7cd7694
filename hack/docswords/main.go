// Command docswords prints, for each page of the docs, how many words are written by hand,
// how many words a sentence has on average, and each sentence of more than 30.
//
//	go run ./hack/docswords            every page
//	go run ./hack/docswords FILE...    these
//
// Generated sections, code, and the targets of links are no words. A line of a list, a cell
// of a table and a heading end a sentence.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const longest = 30

var (
	generated  = regexp.MustCompile(`(?s)<!-- generated: .*?<!-- end -->`)
	comment    = regexp.MustCompile(`(?s)<!--.*?-->`)
	fence      = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	anchor     = regexp.MustCompile(`<a id="[^"]*"></a>`)
	picture    = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	link       = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	block      = regexp.MustCompile(`(?m)^\s*(?:#+ |[-*] |\d+\. |\|).*$`)
	item       = regexp.MustCompile(`^\s*(?:#+|[-*]|\d+\.) `)
	sentence   = regexp.MustCompile(`[.!?](?:["”)*]*)(?:\s+|$)`)
	word       = regexp.MustCompile(`[\p{L}\p{N}]`)
)

type page struct {
	words     int
	sentences []string
}

func main() {
	files := os.Args[1:]
	if len(files) == 0 {
		files = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
		err := filepath.WalkDir("docs", func(name string, _ fs.DirEntry, err error) error {
			if filepath.Ext(name) == ".md" {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			fail(err)
		}
	}
	var all page
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fail(err)
		}
		p := read(string(text))
		fmt.Printf("%6d words, %4.1f a sentence  %s\n", p.words, p.average(), file)
		for _, s := range p.sentences {
			if n := count(s); n > longest {
				fmt.Printf("       %d: %s\n", n, s)
			}
		}
		all.words += p.words
		all.sentences = append(all.sentences, p.sentences...)
	}
	fmt.Printf("%6d words, %4.1f a sentence  in all\n", all.words, all.average())
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "docswords: %v\n", err)
	os.Exit(1)
}

func read(text string) page {
	for _, gone := range []*regexp.Regexp{generated, comment, fence, anchor, picture} {
		text = gone.ReplaceAllString(text, "\n\n")
	}
	text = link.ReplaceAllString(text, "$1")
	var p page
	p.words = count(text)
	// A full stop within code ends no sentence.
	text = inlineCode.ReplaceAllStringFunc(text, func(code string) string {
		return strings.NewReplacer(". ", ".", "! ", "!", "? ", "?").Replace(code)
	})
	text = block.ReplaceAllStringFunc(text, func(line string) string {
		line = item.ReplaceAllString(line, "")
		return "\n\n" + strings.ReplaceAll(line, "|", "\n\n") + endOfTable(line)
	})
	for _, paragraph := range strings.Split(text, "\n\n") {
		for len(paragraph) > 0 {
			end := len(paragraph)
			if at := sentence.FindStringIndex(paragraph); at != nil {
				end = at[1]
			}
			if s := strings.Join(strings.Fields(paragraph[:end]), " "); count(s) > 0 {
				p.sentences = append(p.sentences, s)
			}
			paragraph = paragraph[end:]
		}
	}
	return p
}

// endOfTable ends what a row of a table says; the text of a list goes on in the next line.
func endOfTable(line string) string {
	if strings.Contains(line, "|") {
		return "\n\n"
	}
	return ""
}

// average leaves out what is shorter than a sentence, as most cells and headings are.
func (p page) average() float64 {
	words, sentences := 0, 0
	for _, s := range p.sentences {
		if n := count(s); n > 4 {
			words += n
			sentences++
		}
	}
	return float64(words) / float64(max(sentences, 1))
}

func count(text string) int {
	n := 0
	for _, field := range strings.Fields(text) {
		if word.MatchString(field) {
			n++
		}
	}
	return n
}
