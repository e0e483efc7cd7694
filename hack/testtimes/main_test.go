package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTimes(t *testing.T) {
	const module = "github.com/kedify/argo-rollouts-plugin/"
	one := write(t, `{"Action":"run","Package":"`+module+`a","Test":"TestA"}
{"Action":"pass","Package":"`+module+`a","Test":"TestA/slow/part","Elapsed":2.5}
{"Action":"fail","Package":"`+module+`a","Test":"TestA/quick","Elapsed":0.1}
{"Action":"pass","Package":"`+module+`a","Test":"TestA/slow","Elapsed":2.5}
{"Action":"fail","Package":"`+module+`a","Test":"TestA","Elapsed":2.6}
{"Action":"skip","Package":"`+module+`a","Test":"TestSkipped","Elapsed":9}
{"Action":"fail","Package":"`+module+`a","Elapsed":3}
`)
	two := write(t, `{"Action":"pass","Package":"`+module+`sandbox/b","Test":"TestA","Elapsed":4}
{"Action":"pass","Package":"`+module+`sandbox/b","Elapsed":10}
{"Action":"pass","Package":"`+module+`a","Elapsed":1}
`)
	var out bytes.Buffer
	if err := run([]string{one, two}, &out); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"seconds the slowest of 3 tests", "4.0 sandbox/b TestA", "2.5 a TestA/slow/part", "0.1 a TestA/quick",
		"", "seconds package", "10.0 sandbox/b", "4.0 a", "14.0 in all",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSlowestOnly(t *testing.T) {
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, `{"Action":"pass","Package":"p","Test":"Test%d","Elapsed":%d}`+"\n", i, i)
	}
	var out bytes.Buffer
	if err := run([]string{write(t, text.String())}, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), " p Test"); n != slowest || !strings.Contains(out.String(), "Test49") || strings.Contains(out.String(), "Test29\n") {
		t.Errorf("%d tests, want the slowest 20 of 50:\n%s", n, out.String())
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	for name, files := range map[string][]string{
		"no files": nil,
		"is away":  {filepath.Join(t.TempDir(), "none.json")},
		"no JSON":  {write(t, "ok  \tp\t0.1s\n")},
	} {
		if err := run(files, new(bytes.Buffer)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
