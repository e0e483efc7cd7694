package gauge

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// Table is a table of figures that is printed when it is complete. Its cells end with
// tabs.
type Table struct {
	w    *tabwriter.Writer
	rows int // the heading is one
}

// NewTable returns a table with a heading.
func NewTable(heading string) *Table {
	t := &Table{w: tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)}
	t.Row("%s", heading)
	return t
}

// Row adds a row.
func (t *Table) Row(cells string, args ...any) {
	t.rows++
	_, _ = fmt.Fprintf(t.w, cells+"\n", args...)
}

// Print prints the table, if there is anything in it, and an empty line.
func (t *Table) Print() {
	if t.rows < 2 {
		return
	}
	_ = t.w.Flush() // to a terminal
	_, _ = io.WriteString(os.Stdout, "\n")
}

// Say tells the person at the terminal what is measured now.
func Say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
