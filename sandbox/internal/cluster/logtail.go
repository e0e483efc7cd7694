package cluster

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// tailLines is how much of a log an error message shows.
const tailLines = 15

// logTail returns the last lines of the file at path, each indented, for a
// message to end with. A log that cannot be read is described instead.
func logTail(path string) string {
	lines, err := lastLines(path, tailLines)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "    (" + path + " does not exist)"
	case err != nil:
		return "    (" + err.Error() + ")"
	case len(lines) == 0:
		return "    (" + path + " is empty)"
	}
	return "    " + path + ":\n    " + strings.Join(lines, "\n    ")
}

// lastLines returns up to n last lines of the file at path.
func lastLines(path string, n int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// Enough for n long lines; a log may be large.
	const window = 64 << 10
	from := max(0, info.Size()-window)
	content, err := io.ReadAll(io.NewSectionReader(f, from, window))
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(content), "\n")
	if text == "" {
		return nil, nil
	}
	lines := strings.Split(text, "\n")
	if from > 0 && len(lines) > 1 {
		lines = lines[1:] // cut in the middle
	}
	return lines[max(0, len(lines)-n):], nil
}

// CopyLog writes the log of a component to w; besides the components there are
// the logs "sandbox", of init and the daemon, and "releases".
func (l Layout) CopyLog(component string, w io.Writer) error {
	names := append(Components(), "sandbox", "releases")
	if !slices.Contains(names, component) {
		return fmt.Errorf("no log of %q; there are: %s", component, strings.Join(names, ", "))
	}
	f, err := os.Open(l.Log(component))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return err
}
