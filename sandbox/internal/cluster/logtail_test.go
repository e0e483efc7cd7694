package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLastLines(t *testing.T) {
	var long strings.Builder
	for i := range 20000 {
		_, _ = fmt.Fprintf(&long, "line %d\n", i)
	}
	for name, tc := range map[string]struct {
		content string
		want    []string
	}{
		"fewer than asked for":      {"a\nb\n", []string{"a", "b"}},
		"more than asked for":       {"a\nb\nc\nd\n", []string{"b", "c", "d"}},
		"no newline at the end":     {"a\nb", []string{"a", "b"}},
		"empty":                     {"", nil},
		"only newlines":             {"\n\n", nil},
		"longer than what is read":  {long.String(), []string{"line 19997", "line 19998", "line 19999"}},
		"one line longer than that": {strings.Repeat("x", 70000), []string{strings.Repeat("x", 64<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := lastLines(path, 3)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := logTail("/does/not/exist"); !strings.Contains(got, "/does/not/exist") {
		t.Errorf("a missing log is described as %q", got)
	}
}

func TestCopyLog(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	if err := os.MkdirAll(l.Logs(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.Log(Etcd), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.CopyLog(Etcd, &out); err != nil || out.String() != "hello\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := l.CopyLog("../settings", &out); err == nil || !strings.Contains(err.Error(), APIServer) {
		t.Errorf("a log of no component: %v", err)
	}
}
