package demo

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Style is how a line looks on a terminal with colours.
type Style string

// The styles, as the numbers of ANSI's "select graphic rendition".
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Good  Style = "32"
	Bad   Style = "31"
)

// Line is a line of text in one style.
type Line struct {
	Text  string
	Style Style
}

// Escape sequences that hide a terminal's cursor and show it again.
const (
	hidden  = "\x1b[?25l"
	visible = "\x1b[?25h"
)

// Screen shows lines that stay, and on a terminal a panel below them that is
// drawn anew each time. It is safe for concurrent use.
type Screen struct {
	mu       sync.Mutex
	out      *os.File
	terminal bool
	colours  bool
	size     func() (width, height int)
	drawn    int // lines of the panel on the terminal now
}

// NewScreen returns a Screen on a file. Colours are left out where NO_COLOR is
// set. Close must be called at the end.
func NewScreen(out *os.File) *Screen {
	s := &Screen{out: out, terminal: term.IsTerminal(int(out.Fd()))}
	s.colours = s.terminal && os.Getenv("NO_COLOR") == ""
	s.size = func() (int, int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}
	return s
}

// Say writes lines that stay.
func (s *Screen) Say(lines ...Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	s.erase(&text)
	for _, line := range lines {
		text.WriteString(s.paint(line.Text, line.Style) + "\n")
	}
	return s.write(text.String())
}

// Panel draws the panel; without a terminal it does nothing. Of a panel that
// does not fit, the upper part is drawn.
func (s *Screen) Panel(lines []Line) error {
	if !s.terminal {
		return nil
	}
	width, height := s.size()
	lines = lines[:min(len(lines), height-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	s.erase(&text)
	text.WriteString(hidden)
	for _, line := range lines {
		text.WriteString(s.paint(clip(line.Text, width), line.Style) + "\n")
	}
	s.drawn = len(lines)
	return s.write(text.String())
}

// Close removes the panel and leaves the terminal as it was.
func (s *Screen) Close() error {
	if !s.terminal {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	s.erase(&text)
	text.WriteString(visible)
	return s.write(text.String())
}

// showCursor shows the cursor again, in case the process of a Screen on the file was
// killed.
func showCursor(out *os.File) error {
	if !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	if _, err := out.WriteString(visible); err != nil {
		return fmt.Errorf("showing the cursor again: %w", err)
	}
	return nil
}

// erase goes back to where the panel begins, and clears from there.
func (s *Screen) erase(text *strings.Builder) {
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(text, "\x1b[%dF\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *Screen) paint(text string, style Style) string {
	if !s.colours || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

func (s *Screen) write(text string) error {
	if _, err := s.out.WriteString(text); err != nil {
		return fmt.Errorf("showing the demo: %w", err)
	}
	return nil
}

// clip shortens a line to fit a width: one that wraps takes two lines, and
// would not be erased.
func clip(text string, width int) string {
	runes := []rune(text)
	if len(runes) < width {
		return text
	}
	return string(runes[:max(0, width-2)]) + "…"
}
