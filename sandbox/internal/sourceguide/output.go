package sourceguide

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	control       = regexp.MustCompile("\x1b\\[[0-9;]*[a-zA-Z]")
	generatedName = regexp.MustCompile(`-[0-9a-f]{8,10}(?:-[a-z0-9]{5})?\b`)
	age           = regexp.MustCompile(`(^|\s)(?:\d+[dhms])+(\s|$)`)
	spaces        = regexp.MustCompile(` +`)
	// Numbers of pods, as kubectl argo rollouts prints them, and of answers, as uniq -c
	// does.
	pods    = regexp.MustCompile(`^((?:Desired|Current|Updated|Ready|Available):) \d+$`)
	answers = regexp.MustCompile(`^\d+( ".*"|)$`)
	branch  = regexp.MustCompile(`^[│├└─ ]+`)
	heading = regexp.MustCompile(`\S+ *`)
)

// Lines returns the lines of an output, with ages and generated names replaced, and
// spaces reduced to one.
func Lines(text string) []string {
	var lines []string
	for line := range strings.Lines(control.ReplaceAllString(text, "")) {
		line = generatedName.ReplaceAllString(line, "-HASH")
		line = age.ReplaceAllString(line, "${1}AGE$2")
		lines = append(lines, strings.TrimSpace(spaces.ReplaceAllString(line, " ")))
	}
	return lines
}

// notCompared are the columns of kubectl's tables that differ from run to run: ages,
// numbers of pods, and KEDA's list of trigger types.
var notCompared = []string{"AGE", "DESIRED", "CURRENT", "UP-TO-DATE", "AVAILABLE", "TRIGGERS"}

// Compare returns an error unless a command has printed what the guide shows, but for
// ages, generated names, numbers of pods and of answers, and KEDA's triggers. A cell of
// a table that the guide leaves empty may be filled.
func Compare(shown, printed string) error {
	want, got := rows(shown), rows(printed)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !slices.EqualFunc(want[i].cells, got[i].cells, func(w, g string) bool {
			return w == g || w == "" && want[i].inTable
		}) {
			return fmt.Errorf("line %d is not as shown; shown:\n%sprinted:\n%s", i+1, shown, printed)
		}
	}
	return nil
}

// row is what is compared of a line: the cells of a line in a table, or else all of it.
type row struct {
	cells   []string
	inTable bool
}

// rows reads an output. Of rows that follow one another and are the same as far as they
// are compared, such as those of pods, there is one.
func rows(text string) []row {
	var (
		all     []row
		columns [][]int // of the present table: where each begins and ends
		names   []string
	)
	// What kubectl argo rollouts prints is no table: its columns count colours.
	description := strings.HasPrefix(control.ReplaceAllString(text, ""), "Name:")
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		line = strings.TrimRight(line, "\n")
		r := row{inTable: columns != nil}
		switch {
		case line == "":
			columns, r.inTable = nil, false
			r.cells = []string{""}
		case !description && columns == nil && strings.HasPrefix(line, "NAME "):
			columns, names = heading.FindAllStringIndex(line, -1), strings.Fields(line)
			r.cells = names
		case columns != nil:
			r.cells = cells(line, columns, names)
		default:
			r.cells = []string{plain(line)}
		}
		if len(all) == 0 || !slices.Equal(all[len(all)-1].cells, r.cells) {
			all = append(all, r)
		}
	}
	return all
}

// cells returns the cells of a line of a table that are compared, and nothing in place
// of the others.
func cells(line string, columns [][]int, names []string) []string {
	list := make([]string, len(columns))
	for i, at := range columns {
		if from, to := min(at[0], len(line)), min(at[1], len(line)); !slices.Contains(notCompared, names[i]) {
			if i == len(columns)-1 {
				to = len(line)
			}
			list[i] = strings.Join(Lines(line[from:to]), "")
		}
	}
	return list
}

// plain returns a line without what is not compared.
func plain(line string) string {
	line = branch.ReplaceAllString(strings.Join(Lines(line), ""), "")
	return answers.ReplaceAllString(pods.ReplaceAllString(line, "$1 N"), "N$1")
}
