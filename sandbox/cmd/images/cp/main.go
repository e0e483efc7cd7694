// Command cp is the cp of a container, whose root holds nothing but the static
// programs of its image.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() { os.Exit(copyMain(os.Args[1:], os.Stderr)) }

// copyMain is `cp SOURCE TARGET` for one regular file, with the same outcome as cp:
// TARGET may be a directory to copy into, an existing file is overwritten and keeps
// its permissions, a new one gets those of SOURCE less the umask, and a file is not
// copied onto itself. Everything else is refused. It returns the exit code.
func copyMain(args []string, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		_, _ = fmt.Fprintf(stderr, "cp: option %s: the sandbox's cp takes none, only SOURCE and TARGET\n", args[0])
		return 1
	}
	if len(args) != 2 {
		_, _ = fmt.Fprintf(stderr, "cp: %d operands: the sandbox's cp takes two, SOURCE and TARGET\n", len(args))
		return 1
	}
	if err := copyProgram(args[0], args[1]); err != nil {
		_, _ = fmt.Fprintln(stderr, "cp:", err)
		return 1
	}
	return 0
}

func copyProgram(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: the sandbox's cp copies no other", from)
	}
	there, err := os.Stat(to)
	if err == nil && there.IsDir() {
		to = filepath.Join(to, filepath.Base(from))
		there, err = os.Stat(to)
	}
	switch {
	case err == nil && os.SameFile(info, there):
		return fmt.Errorf("%s and %s are the same file", from, to)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copying %s to %s: %w", from, to, err)
	}
	return nil
}
