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

// CompareMemory prints the memory of a process beside that of another.
func CompareMemory(with, what string, p *Process, besideWhat string, beside *Process, bar float64) error {
	base, err := beside.Resident()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", besideWhat, err, beside.Log)
	}
	resident, err := p.Resident()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, p.Log)
	}
	t := NewTable("resident memory with " + with + "\tmeasured\tratio\tbar")
	t.Row("%s\t%.0f MB\t\t", besideWhat, base)
	t.Row("%s\t%.0f MB\t%s", what, resident, AtMost(resident/base, bar))
	t.Print()
	return nil
}

// Say tells the person at the terminal what is measured now.
func Say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
