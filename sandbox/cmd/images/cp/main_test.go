package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCopy(t *testing.T) {
	const content = "a program"
	// Each test runs in a directory with the program "source", "existing" which
	// is longer and not executable, "source-again" which is a link to the first,
	// and the empty directory "dir".
	for name, tc := range map[string]struct {
		args   []string
		copied string
		mode   fs.FileMode
		says   string
	}{
		"to a new file":        {args: []string{"source", "target"}, copied: "target", mode: 0o750},
		"into a directory":     {args: []string{"source", "dir"}, copied: "dir/source", mode: 0o750},
		"over a longer file":   {args: []string{"source", "existing"}, copied: "existing", mode: 0o640},
		"after --":             {args: []string{"--", "source", "target"}, copied: "target", mode: 0o750},
		"onto itself":          {args: []string{"source", "source"}, says: "are the same file"},
		"onto itself, linked":  {args: []string{"source", "source-again"}, says: "are the same file"},
		"onto itself in place": {args: []string{"source", "."}, says: "are the same file"},
		"nothing there":        {args: []string{"missing", "target"}, says: "no such file"},
		"no such directory":    {args: []string{"source", "nowhere/target"}, says: "no such file"},
		"under a file":         {args: []string{"source", "existing/target"}, says: "not a directory"},
		"a directory":          {args: []string{"dir", "target"}, says: "not a regular file"},
		"an option":            {args: []string{"-r", "source", "target"}, says: "option -r"},
		"one operand":          {args: []string{"source"}, says: "1 operands"},
		"three operands":       {args: []string{"source", "existing", "dir"}, says: "3 operands"},
		"no operands":          {says: "0 operands"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for file, mode := range map[string]fs.FileMode{"source": 0o750, "existing": 0o640} {
				text := content
				if file == "existing" {
					text += " and more"
				}
				if err := os.WriteFile(file, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("source", "source-again"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir("dir", 0o755); err != nil {
				t.Fatal(err)
			}

			var stderr bytes.Buffer
			code := copyMain(tc.args, &stderr)
			if source, err := os.ReadFile("source"); err != nil || string(source) != content {
				t.Errorf("the source holds %q, %v", source, err)
			}
			if tc.says != "" {
				if code != 1 || !strings.HasPrefix(stderr.String(), "cp: ") || !strings.Contains(stderr.String(), tc.says) {
					t.Errorf("exit code %d, %q; want 1 and %q", code, stderr.String(), tc.says)
				}
				return
			}
			if code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit code %d, %q", code, stderr.String())
			}
			got, err := os.ReadFile(filepath.Join(dir, tc.copied))
			if err != nil || string(got) != content {
				t.Errorf("%s holds %q, %v", tc.copied, got, err)
			}
			if info, err := os.Stat(tc.copied); err != nil || info.Mode().Perm() != tc.mode {
				t.Errorf("%s: %v, %v; want mode %s", tc.copied, info.Mode(), err, tc.mode)
			}
		})
	}
}
