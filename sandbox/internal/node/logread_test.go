package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func writeLog(t *testing.T, path string, from, to int) {
	t.Helper()
	var b []byte
	for i := from; i <= to; i++ {
		stream := "stdout"
		if i%2 == 0 {
			stream = "stderr"
		}
		b = logLine{time: time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC), stream: stream, text: fmt.Appendf(nil, "line %d", i)}.append(b)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCopyLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeLog(t, path+".1", 1, 4)
	writeLog(t, path, 5, 8)
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	all := logOptions{tailLines: -1, limitBytes: -1}
	with := func(change func(*logOptions)) logOptions { o := all; change(&o); return o }
	tests := map[string]struct {
		opts logOptions
		want string
	}{
		"all, with what was put aside": {all, lines(1, 8)},
		"tail in the file":             {with(func(o *logOptions) { o.tailLines = 2 }), lines(7, 8)},
		"tail of the whole file":       {with(func(o *logOptions) { o.tailLines = 4 }), lines(5, 8)},
		"tail into what was put aside": {with(func(o *logOptions) { o.tailLines = 6 }), lines(3, 8)},
		"tail longer than all":         {with(func(o *logOptions) { o.tailLines = 100 }), lines(1, 8)},
		"tail of nothing":              {with(func(o *logOptions) { o.tailLines = 0 }), ""},
		"since":                        {with(func(o *logOptions) { o.since = time.Date(2026, 1, 1, 0, 0, 7, 0, time.UTC) }), lines(7, 8)},
		"limit":                        {with(func(o *logOptions) { o.limitBytes = 9 }), "line 1\nli"},
		"limit of nothing":             {with(func(o *logOptions) { o.limitBytes = 0 }), ""},
		"one stream":                   {with(func(o *logOptions) { o.stream = "stderr"; o.tailLines = 2 }), "line 8\n"},
		"timestamps":                   {with(func(o *logOptions) { o.timestamps = true; o.tailLines = 1 }), "2026-01-01T00:00:08Z line 8\n"},
		"follow of a log that ended":   {with(func(o *logOptions) { o.follow = true; o.tailLines = 1 }), "line 8\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := copyLog(t.Context(), &b, func() {}, path, nil, tt.opts); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCopyLogOfMissingFile(t *testing.T) {
	if err := copyLog(t.Context(), io.Discard, func() {}, filepath.Join(t.TempDir(), "0.log"), nil, logOptions{tailLines: -1, limitBytes: -1}); err == nil {
		t.Error("no error")
	}
}

func TestCopyLogJoinsPartialLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	var b []byte
	b = logLine{stream: "stdout", partial: true, text: []byte("long ")}.append(b)
	b = logLine{stream: "stdout", text: []byte("line")}.append(b)
	b = append(b, "garbage\n"...)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := copyLog(t.Context(), &out, func() {}, path, nil, logOptions{tailLines: -1, limitBytes: -1, timestamps: true}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "0001-01-01T00:00:00Z long line\n" {
		t.Errorf("log %q", got)
	}
}

// TestFollow writes through a log file, rotation included, while it is followed.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c", "0.log")
	log, err := createLogFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	write, err := log.pipe("stdout")
	if err != nil {
		t.Fatal(err)
	}
	read, followed := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		_ = followed.CloseWithError(copyLog(ctx, followed, func() {}, path, log, logOptions{follow: true, tailLines: -1, limitBytes: -1}))
	}()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(read, got); err != nil || string(got) != want {
			t.Fatalf("followed %.60q, %v; want %.60q", got, err, want)
		}
	}
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(write, text); err != nil {
			t.Fatal(err)
		}
	}
	send("one\n")
	expect("one\n")
	send("half")
	send(" and half\n")
	expect("half and half\n")
	log.mu.Lock()
	log.rotate()
	log.mu.Unlock()
	send("after rotation\n")
	expect("after rotation\n")
	send("no newline at the end")
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	log.drain(10 * time.Second)
	log.end()
	expect("no newline at the end\n")
	if rest, err := io.ReadAll(read); err != nil || len(rest) > 0 {
		t.Errorf("at the end of the run: %q, %v; want the end", rest, err)
	}
}

func TestLogRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := createLogFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer log.end()
	text := bytes.Repeat([]byte("x"), 8<<10)
	for range maxLogFile/len(text) + 10 {
		log.write(func(emit func(logLine)) { emit(logLine{stream: "stdout", text: text}) })
	}
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() > maxLogFile {
			t.Errorf("%s: %v, %v; want at most %d bytes", name, info, err, maxLogFile)
		}
	}
}

func TestParseLogQuery(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	opts, previous, err := parseLogQuery(url.Values{
		"follow": {"true"}, "timestamps": {"true"}, "previous": {"true"}, "tailLines": {"5"}, "limitBytes": {"100"}, "sinceSeconds": {"60"}, "stream": {"Stderr"},
	}, now)
	want := logOptions{follow: true, timestamps: true, tailLines: 5, limitBytes: 100, since: now.Add(-time.Minute), stream: "stderr"}
	if diff := cmp.Diff(want, opts, cmp.AllowUnexported(logOptions{})); diff != "" || !previous || err != nil {
		t.Errorf("previous %v, error %v, options (-want +got):\n%s", previous, err, diff)
	}
	opts, previous, err = parseLogQuery(url.Values{"sinceTime": {"2026-01-01T11:00:00Z"}}, now)
	want = logOptions{tailLines: -1, limitBytes: -1, since: now.Add(-time.Hour)}
	if diff := cmp.Diff(want, opts, cmp.AllowUnexported(logOptions{})); diff != "" || previous || err != nil {
		t.Errorf("previous %v, error %v, options (-want +got):\n%s", previous, err, diff)
	}
	for name, value := range map[string]string{
		"follow": "maybe", "tailLines": "-1", "limitBytes": "x", "sinceSeconds": "1.5", "sinceTime": "noon", "stream": "stdin",
	} {
		if _, _, err := parseLogQuery(url.Values{name: {value}}, now); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: error %v; want one that names it", name, value, err)
		}
	}
}
