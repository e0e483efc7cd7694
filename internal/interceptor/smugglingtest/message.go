package smugglingtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// A message is a request as it stood on the wire.
type message struct {
	Method, Target string
	Header         []string // lines, "Name: value"
	Body           []byte
	// Complete says that the whole request was sent.
	Complete bool
}

// Values are the values of a field, without the spaces around them.
func (m message) Values(name string) []string {
	var values []string
	for _, line := range m.Header {
		if n, value, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			values = append(values, strings.Trim(value, " \t"))
		}
	}
	return values
}

var (
	requestLine = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+) ([!-~\x80-\xff]+) HTTP/1\.1$`)
	// A field has no space before its colon, and no control characters.
	fieldLine = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+):[ \t]*([\t !-~\x80-\xff]*)$`)
	chunkLine = regexp.MustCompile(`^[0-9A-Fa-f]{1,8}$`)
)

// An ambiguousError is the reason why a message can be read in more than one way.
type ambiguousError struct {
	Reason error
	// Text is what was sent, from the beginning of that message.
	Text []byte
}

func (e *ambiguousError) Error() string { return fmt.Sprintf("%v, in %.400q", e.Reason, e.Text) }

// readMessages reads the requests sent on a connection, and returns an
// ambiguousError for anything that another server could read differently: a line
// that does not end in CRLF, a repeated length, chunks and a length, an encoding
// other than chunked, a folded or malformed field. The last message may be cut
// short.
func readMessages(sent []byte) ([]message, error) {
	var all []message
	r := &wireReader{rest: sent}
	for len(r.rest) > 0 {
		begin := r.rest
		m, err := r.message()
		if errors.Is(err, io.ErrUnexpectedEOF) && m.Method != "" {
			return append(all, m), nil
		}
		if err != nil {
			return all, &ambiguousError{err, begin}
		}
		m.Complete = true
		all = append(all, m)
	}
	return all, nil
}

type wireReader struct{ rest []byte }

func (r *wireReader) line() (string, error) {
	line, rest, found := bytes.Cut(r.rest, []byte("\r\n"))
	if bytes.ContainsAny(line, "\r\n\x00") {
		return "", fmt.Errorf("a line with a CR, LF or NUL in it: %q", line)
	}
	if !found {
		return "", io.ErrUnexpectedEOF
	}
	r.rest = rest
	return string(line), nil
}

func (r *wireReader) take(n int) ([]byte, error) {
	if len(r.rest) < n {
		return nil, io.ErrUnexpectedEOF
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken, nil
}

func (r *wireReader) message() (m message, err error) {
	line, err := r.line()
	if err != nil {
		return m, err
	}
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil {
		return m, fmt.Errorf("a line that begins no request: %q", line)
	}
	m.Method, m.Target = parts[1], parts[2]
	if m.Header, err = r.fields(); err != nil {
		return m, err
	}
	lengths, encodings, hosts := m.Values("content-length"), m.Values("transfer-encoding"), m.Values("host")
	switch {
	case len(hosts) != 1:
		return m, fmt.Errorf("hosts %q", hosts)
	case len(lengths)+len(encodings) > 1:
		return m, fmt.Errorf("its length is said more than once: %q and %q", lengths, encodings)
	case len(encodings) == 1 && !strings.EqualFold(encodings[0], "chunked"):
		return m, fmt.Errorf("the encoding is %q", encodings[0])
	case len(encodings) == 1:
		m.Body, err = r.chunks()
		return m, err
	case len(lengths) == 1:
		length, err := strconv.ParseUint(lengths[0], 10, 31)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return m, fmt.Errorf("the length is %q", lengths[0])
		}
		m.Body, err = r.take(int(length))
		return m, err
	}
	return m, nil
}

func (r *wireReader) fields() ([]string, error) {
	var fields []string
	for {
		line, err := r.line()
		if err != nil {
			return fields, err
		}
		if line == "" {
			return fields, nil
		}
		if !fieldLine.MatchString(line) {
			return fields, fmt.Errorf("a line that is no field: %q", line)
		}
		fields = append(fields, line)
	}
}

func (r *wireReader) chunks() ([]byte, error) {
	var body []byte
	for {
		line, err := r.line()
		if err != nil {
			return body, err
		}
		if !chunkLine.MatchString(line) {
			return body, fmt.Errorf("a line that begins no chunk: %q", line)
		}
		size, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return body, err
		}
		if size == 0 {
			_, err := r.fields()
			return body, err
		}
		chunk, err := r.take(int(size) + 2)
		if err != nil {
			return body, err
		}
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return body, fmt.Errorf("a chunk that does not end where it says: %q", chunk)
		}
		body = append(body, chunk[:size]...)
	}
}
