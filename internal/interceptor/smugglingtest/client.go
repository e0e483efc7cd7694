package smugglingtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// transcript is what a client got on one connection.
type transcript struct {
	answers []answer
	// end says how the connection ended.
	end string
	// hung says that the connection did not end within the client's patience.
	hung bool
	// unreachable says that no connection could be made.
	unreachable bool
}

type answer struct {
	status int
	body   string
	closes bool // the answer says that no other follows
}

func (t transcript) String() string {
	var parts []string
	for _, a := range t.answers {
		parts = append(parts, fmt.Sprintf("%d %.80q", a.status, a.body))
	}
	return strings.Join(append(parts, t.end), ", ")
}

func (t *transcript) ended(err error) {
	t.end = err.Error()
	t.hung = errors.Is(err, os.ErrDeadlineExceeded)
}

// send sends a case on a connection of its own, and reads until the proxy ends the
// connection, or the stream of HTTP/2.
func (c Case) send(address, host string, patience time.Duration) transcript {
	var t transcript
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.end = err.Error()
		t.unreachable = true
		return t
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience)) // cannot fail on an open connection
	text := []byte(c.fill(c.Text, host) + c.after(host))
	if c.HTTP2 != nil {
		text = c.http2(host)
	}
	// The proxy may answer before it has read everything, and close.
	go func() { _, _ = conn.Write(text) }()
	if c.HTTP2 != nil {
		t.readHTTP2(conn)
	} else {
		t.read(conn)
	}
	return t
}

func (t *transcript) read(conn net.Conn) {
	reader := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.ended(err)
			return
		}
		body, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusContinue {
			t.answers = append(t.answers, answer{res.StatusCode, string(body), res.Close})
		}
		if err != nil {
			t.ended(err)
			return
		}
	}
}

// http2 is the case in frames of HTTP/2, with the preface before them.
func (c Case) http2(host string) []byte {
	all := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "HOST"}, {":path", "/CASE"}}
	all = slices.DeleteFunc(all, func(f [2]string) bool {
		return slices.ContainsFunc(c.HTTP2.Fields, func(other [2]string) bool { return other[0] == f[0] })
	})
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, pseudo := range []bool{true, false} { // pseudo-headers come first
		for _, f := range slices.Concat(all, c.HTTP2.Fields) {
			if strings.HasPrefix(f[0], ":") == pseudo {
				_ = encoder.WriteField(hpack.HeaderField{Name: c.fill(f[0], host), Value: c.fill(f[1], host)})
			}
		}
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	framer.AllowIllegalWrites = true
	_ = framer.WriteSettings()
	body := c.fill(c.HTTP2.Body, host)
	rest := block.Bytes()
	for first := true; first || len(rest) > 0; first = false {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		if first {
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndHeaders: len(rest) == 0, EndStream: body == ""})
		} else {
			_ = framer.WriteContinuation(1, len(rest) == 0, part)
		}
	}
	if body != "" {
		_ = framer.WriteData(1, true, []byte(body))
	}
	return out.Bytes()
}

// readHTTP2 reads frames until stream 1 has ended.
func (t *transcript) readHTTP2(conn net.Conn) {
	framer := http2.NewFramer(io.Discard, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var status int
	var body []byte
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.ended(err)
			return
		}
		over := false
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			_, _ = fmt.Sscan(f.PseudoValue("status"), &status)
			over = f.StreamEnded()
		case *http2.DataFrame:
			body = append(body, f.Data()...)
			over = f.StreamEnded()
		case *http2.RSTStreamFrame:
			t.end = "stream reset with " + f.ErrCode.String()
			return
		case *http2.GoAwayFrame:
			t.end = "connection ended with " + f.ErrCode.String()
			return
		}
		if over {
			t.answers = append(t.answers, answer{status, string(body), true})
			t.end = "stream ended"
			return
		}
	}
}
