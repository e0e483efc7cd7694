package node

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseLogLine(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)
	tests := map[string]struct {
		line    string
		want    logLine
		wantErr string
	}{
		"full":         {line: "2026-11-21T09:00:00.123456789Z stdout F hello there\n", want: logLine{time: at, stream: "stdout", text: []byte("hello there")}},
		"partial":      {line: "2026-11-21T09:00:00.123456789Z stderr P hel", want: logLine{time: at, stream: "stderr", partial: true, text: []byte("hel")}},
		"empty text":   {line: "2026-11-21T09:00:00.123456789Z stdout F \n", want: logLine{time: at, stream: "stdout", text: []byte{}}},
		"nothing":      {line: "", wantErr: "no space"},
		"bad time":     {line: "yesterday stdout F x", wantErr: "parsing time"},
		"bad stream":   {line: "2026-11-21T09:00:00Z stdin F x", wantErr: "expected stdout or stderr"},
		"bad tag":      {line: "2026-11-21T09:00:00Z stdout X x", wantErr: "expected F or P"},
		"without text": {line: "2026-11-21T09:00:00Z stdout F", wantErr: "expected F or P"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseLogLine([]byte(tt.line))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("parseLogLine = %v, %v; want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(logLine{})); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseLogLine(f *testing.F) {
	f.Add([]byte("2026-11-21T09:00:00.123456789Z stdout F hello"))
	f.Add([]byte("2026-11-21T09:00:00Z stderr P "))
	f.Add([]byte(" F P "))
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := parseLogLine(data)
		if err != nil {
			return
		}
		again, err := parseLogLine(line.append(nil))
		if err != nil {
			t.Fatalf("%q does not parse after it was written: %v", data, err)
		}
		if !again.time.Equal(line.time) || again.stream != line.stream || again.partial != line.partial || !bytes.Equal(again.text, line.text) {
			t.Errorf("%q became %v, then %v", data, line, again)
		}
	})
}

func FuzzLineSplitter(f *testing.F) {
	f.Add([]byte("a\nb"), 1)
	f.Add(bytes.Repeat([]byte("x"), 2*maxLogText+1), 1000)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		if chunk < 1 {
			t.Skip()
		}
		// However the stream is cut, no byte is lost and none is added.
		var got bytes.Buffer
		emit := func(l logLine) {
			got.Write(l.text)
			if !l.partial {
				got.WriteByte('\n')
			}
			if len(l.text) > maxLogText {
				t.Errorf("a line of %d bytes", len(l.text))
			}
		}
		s := lineSplitter{stream: "stdout"}
		for rest := data; len(rest) > 0; {
			n := min(chunk, len(rest))
			s.add(rest[:n], time.Time{}, emit)
			rest = rest[n:]
		}
		s.flush(time.Time{}, emit)
		want := string(data)
		if len(data) > 0 && !strings.HasSuffix(want, "\n") && !strings.HasSuffix(got.String(), want) {
			want += "\n" // The last line is closed by the end of the stream.
		}
		if got.String() != want {
			t.Errorf("%q became %q", data, got.String())
		}
	})
}
