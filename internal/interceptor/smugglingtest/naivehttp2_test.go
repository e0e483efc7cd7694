package smugglingtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// serveHTTP2 serves the first stream of a connection: it writes the request in
// HTTP/1.1, and the answer in HTTP/2. Errors end the connection.
func (e *exchange) serveHTTP2() error {
	if _, err := io.ReadFull(e.reader, make([]byte, len(http2.ClientPreface))); err != nil {
		return err
	}
	framer := http2.NewFramer(e.client, e.reader)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	var block, body bytes.Buffer
	for ended := false; !ended; {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			block.Write(f.HeaderBlockFragment())
			ended = f.StreamEnded() && f.HeadersEnded()
		case *http2.ContinuationFrame:
			block.Write(f.HeaderBlockFragment())
			ended = f.HeadersEnded() && body.Len() == 0 && e.unlimited
		case *http2.DataFrame:
			body.Write(f.Data())
			ended = f.StreamEnded()
		}
		if block.Len() > maxHead && !e.unlimited {
			return e.reset(framer)
		}
	}
	fields, err := hpack.NewDecoder(4096, nil).DecodeFull(block.Bytes())
	if err != nil || !e.verbatim && !strictHTTP2(fields, body.Len()) {
		return e.reset(framer)
	}
	return e.translate(framer, fields, body.Bytes())
}

// reset refuses the stream.
func (e *exchange) reset(framer *http2.Framer) error {
	if err := framer.WriteRSTStream(1, http2.ErrCodeProtocol); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, e.client)
	return err
}

// strictHTTP2 tells whether fields make a request that is valid in HTTP/1.1, too.
func strictHTTP2(fields []hpack.HeaderField, length int) bool {
	count := map[string]int{}
	for _, f := range fields {
		count[f.Name]++
		switch f.Name {
		case ":method", ":scheme":
			if !strictName.MatchString(f.Value) || f.Value == http.MethodConnect {
				return false
			}
		case ":path":
			if !strictLine.MatchString("GET " + f.Value + " HTTP/1.1") {
				return false
			}
		case ":authority":
			if !strictHost.MatchString(f.Value) {
				return false
			}
		case "content-length":
			if f.Value != fmt.Sprint(length) {
				return false
			}
		case "connection", "upgrade", "transfer-encoding", "host":
			return false
		default:
			if !strictName.MatchString(f.Name) || strings.ToLower(f.Name) != f.Name {
				return false
			}
		}
		if !strictValue.MatchString(f.Value) {
			return false
		}
	}
	once := []string{":method", ":scheme", ":path", ":authority"}
	return !slices.ContainsFunc(once, func(name string) bool { return count[name] != 1 }) && count["content-length"] < 2
}

// translate writes a request of HTTP/2 in HTTP/1.1: the pseudo-headers where they
// belong, other fields as they are, and a length if none is given.
func (e *exchange) translate(framer *http2.Framer, fields []hpack.HeaderField, body []byte) error {
	pseudo := map[string]string{}
	var rest strings.Builder
	framed := false
	for _, f := range fields {
		if strings.HasPrefix(f.Name, ":") {
			pseudo[f.Name] = f.Value
			continue
		}
		framed = framed || strings.EqualFold(f.Name, "content-length") || strings.EqualFold(f.Name, "transfer-encoding")
		fmt.Fprintf(&rest, "%s: %s\r\n", f.Name, f.Value)
	}
	if !framed && len(body) > 0 {
		fmt.Fprintf(&rest, "Content-Length: %d\r\n", len(body))
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", pseudo[":method"], pseudo[":path"], pseudo[":authority"], rest.String())
	to := e.app
	if pseudo[":authority"] == "other."+e.host && !e.ignoresHost {
		to = e.other
	}
	u, err := e.dial(to)
	if err != nil {
		return err
	}
	if _, err := u.Write(append([]byte(text), body...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(u.reader, nil)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var block bytes.Buffer
	if err := hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: fmt.Sprint(res.StatusCode)}); err != nil {
		return err
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	if err := framer.WriteData(1, true, answer); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, e.client) // until the client has gone
	return err
}
