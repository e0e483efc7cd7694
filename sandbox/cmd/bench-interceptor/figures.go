package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// figures is a table that is printed when it is complete.
type figures struct {
	w    *tabwriter.Writer
	rows int // the heading is one
}

func newTable(heading string) *figures {
	f := &figures{w: tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)}
	f.row("%s", heading)
	return f
}

func newFigures() *figures { return newTable("what\tmeasured\tbar") }

func (f *figures) row(cells string, args ...any) {
	f.rows++
	_, _ = fmt.Fprintf(f.w, cells+"\n", args...)
}

// print prints the table, if there is anything in it, and an empty line.
func (f *figures) print() {
	if f.rows < 2 {
		return
	}
	_ = f.w.Flush() // to a terminal
	_, _ = io.WriteString(os.Stdout, "\n")
}
