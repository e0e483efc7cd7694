package node

import (
	"bytes"
	"fmt"
	"time"
)

// logLine is one line of a container's log file, in the format that kubelets
// read and container runtimes write: "time stream tag text".
type logLine struct {
	time   time.Time
	stream string // "stdout" or "stderr"
	// partial says that the container's line goes on in the next logLine.
	partial bool
	text    []byte // without the end of the line
}

// append adds the line in its file form, with a newline at the end.
func (l logLine) append(b []byte) []byte {
	b = l.time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, ' ')
	b = append(b, l.stream...)
	if l.partial {
		b = append(b, " P "...)
	} else {
		b = append(b, " F "...)
	}
	b = append(b, l.text...)
	return append(b, '\n')
}

// parseLogLine reads one line of a log file, without or with the newline at its end.
func parseLogLine(b []byte) (logLine, error) {
	b = bytes.TrimSuffix(b, []byte("\n"))
	stamp, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok {
		return logLine{}, fmt.Errorf("log line %.80q: no space after the time", b)
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return logLine{}, fmt.Errorf("log line %.80q: %w", b, err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return logLine{}, fmt.Errorf("log line %.80q: stream %.20q: expected stdout or stderr", b, stream)
	}
	tag, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok || string(tag) != "F" && string(tag) != "P" {
		return logLine{}, fmt.Errorf("log line %.80q: tag %.20q: expected F or P", b, tag)
	}
	return logLine{time: at, stream: string(stream), partial: string(tag) == "P", text: text}, nil
}

// lineSplitter cuts a stream of bytes into log lines.
type lineSplitter struct {
	stream string
	rest   []byte
}

// maxLogText is where a long line is cut into parts, in bytes.
const maxLogText = 16 << 10

// add takes more bytes and calls emit for each line or full part that they
// complete. emit must not keep the text.
func (s *lineSplitter) add(data []byte, now time.Time, emit func(logLine)) {
	s.rest = append(s.rest, data...)
	rest := s.rest
	for {
		i := bytes.IndexByte(rest, '\n')
		switch {
		case i >= 0 && i <= maxLogText:
			emit(logLine{time: now, stream: s.stream, text: rest[:i]})
			rest = rest[i+1:]
			continue
		case len(rest) > maxLogText:
			emit(logLine{time: now, stream: s.stream, partial: true, text: rest[:maxLogText]})
			rest = rest[maxLogText:]
			continue
		}
		break
	}
	s.rest = append(s.rest[:0], rest...)
}

// flush emits what is left at the end of the stream.
func (s *lineSplitter) flush(now time.Time, emit func(logLine)) {
	if len(s.rest) > 0 {
		emit(logLine{time: now, stream: s.stream, text: s.rest})
		s.rest = nil
	}
}
