// Package progress tells a person what a long operation is doing: one line
// that keeps changing on a terminal, plain lines at a calm pace elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// plainInterval is how often a changing status is repeated when the output is
// no terminal: often enough to see that something moves, seldom enough to keep
// a CI log readable.
const plainInterval = 20 * time.Second

// Printer writes progress to one stream. It is safe for concurrent use, and a
// nil *Printer discards everything.
type Printer struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	width    func() int
	now      func() time.Time
	drawn    bool      // a status line is on the terminal now
	last     time.Time // when the last plain status was written
}

// New returns a Printer on w, which redraws its status line in place when w is
// a terminal.
func New(w io.Writer) *Printer {
	// The first status waits like any other: short operations show none.
	p := &Printer{w: w, now: time.Now, last: time.Now(), width: func() int { return 0 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.terminal = true
		p.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 0
			}
			return width
		}
	}
	return p
}

// Say writes a line that stays.
func (p *Printer) Say(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
	p.last = p.now()
}

// Status shows what is happening now. On a terminal it replaces the previous
// status; elsewhere it is written as a line, at most one per 20 seconds.
func (p *Printer) Status(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		if p.now().Sub(p.last) >= plainInterval {
			_, _ = fmt.Fprintln(p.w, line)
			p.last = p.now()
		}
		return
	}
	p.erase()
	_, _ = io.WriteString(p.w, clip(line, p.width()))
	p.drawn = true
}

// Done removes the status line, if there is one.
func (p *Printer) Done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Printer) erase() {
	if p.drawn {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// clip shortens line to fit a terminal of the given width, for a line that
// wraps cannot be erased by one carriage return. A width of 0 is unknown.
func clip(line string, width int) string {
	line = strings.ReplaceAll(line, "\n", " ")
	runes := []rune(line)
	if width < 2 || len(runes) < width {
		return line
	}
	return string(runes[:width-2]) + "…"
}

// Seconds formats d for a person: "7s", "3m10s".
func Seconds(d time.Duration) string {
	return d.Round(time.Second).String()
}
