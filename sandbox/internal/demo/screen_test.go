package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// record returns a screen on a file, and what has been written to it.
func record(t *testing.T) (*Screen, func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "screen")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return NewScreen(file), func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}

func TestScreenPlain(t *testing.T) {
	screen, written := record(t)
	for _, err := range []error{
		screen.Say(Line{"one", Bold}), screen.Panel([]Line{{"live", Plain}}), screen.Say(Line{"2", Good}), screen.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := written(), "one\n2\n"; got != want {
		t.Errorf("without a terminal %q was written, want %q", got, want)
	}
}

func TestScreenTerminal(t *testing.T) {
	screen, written := record(t)
	screen.terminal, screen.colours = true, true
	screen.size = func() (int, int) { return 8, 3 }
	for _, err := range []error{
		screen.Say(Line{"one", Bold}),
		screen.Panel([]Line{{"too long a line", Plain}, {"b", Plain}, {"below the edge", Plain}}),
		screen.Say(Line{"two", Plain}),
		screen.Panel([]Line{{"c", Plain}}),
		screen.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "\x1b[1mone\x1b[0m\n" +
		"\x1b[?25ltoo lo…\nb\n" + // two lines: as many as fit
		"\x1b[2F\x1b[Jtwo\n" + // they are cleared for what stays
		"\x1b[?25lc\n" +
		"\x1b[1F\x1b[J\x1b[?25h" // and the cursor is back
	if diff := cmp.Diff(want, written()); diff != "" {
		t.Errorf("written to the terminal (-want +got):\n%s", diff)
	}
}
