package proxy

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"
)

// The watch finds Content-Length in a text that is read in pieces if, and only if, the
// whole text has it.
func FuzzLengthWatch(f *testing.F) {
	for _, text := range []string{
		"POST / HTTP/1.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / HTTP/1.1\nCONTENT-LENGTH:6\n\n",
		"POST / HTTP/1.1\r\nX-Content-Length: 6\r\n\r\n",
		"\n\n\ncontent-lengt\ncontent-length",
		"content-length: 1",
		"",
	} {
		for _, cuts := range []string{"", "\x01", "\x02\x05\x0c", "\x14\x01\x01\x01\x01\x20"} {
			f.Add([]byte(text), []byte(cuts))
		}
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		if bytes.HasPrefix(text, []byte("PRI * HTTP/2")) {
			return
		}
		want := strings.Contains(strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, string(bytes.ToValidUTF8(text, []byte("?")))), lengthField)
		var watch lengthWatch
		rest := text
		for _, cut := range cuts {
			n := min(int(cut), len(rest))
			if n > 0 {
				watch.watch(rest[:n])
				rest = rest[n:]
			}
		}
		if len(rest) > 0 {
			watch.watch(rest)
		}
		if got := watch.seen.Load() == seenNow; got != want {
			t.Errorf("seen: %v, want %v", got, want)
		}
	})
}

// script is a connection from which the next Read returns next.
type script struct {
	net.Conn
	next string
}

func (s *script) Read(into []byte) (int, error) { return copy(into, s.next), nil }

// A Content-Length that was seen is forgotten only when it cannot belong to the next
// request.
func TestLengthWatchForgets(t *testing.T) {
	const idle = "" // a request is over
	const length, get = "POST / HTTP/1.1\r\nContent-Length: 6\r\n", "GET / HTTP/1.1\r\n\r\n"
	tests := map[string]struct {
		read []string // a single byte is a read while the server answers
		seen bool
	}{
		"nothing":                   {[]string{get}, false},
		"now":                       {[]string{length}, true},
		"with the request before":   {[]string{get + length, idle}, true},
		"with many before":          {[]string{get + get + get + length, idle, idle, idle}, true},
		"cut":                       {[]string{get + length, idle, "X: y\r\n"}, true},
		"cut, after many":           {[]string{get + get + length, idle, idle, "X: y\r\n", "Y: z\r\n"}, true},
		"cut, while it answers":     {[]string{get + get + length, "X", idle, idle, ": y\r\n"}, true},
		"cut, between two answers":  {[]string{get + get + length, idle, "X", idle, ": y\r\n"}, true},
		"cut in the name":           {[]string{get + "POST / HTTP/1.1\r\nCont", idle, "ent-Length: 6\r\n"}, true},
		"cut there, as it answers":  {[]string{get + "POST / HTTP/1.1\r\nCont", "e", idle, "nt-Length: 6\r\n"}, true},
		"in the request before":     {[]string{length + "\r\n", idle, get}, true}, // it may belong to the second request
		"in the one before that":    {[]string{length + "\r\n", idle, get, idle, get}, false},
		"then, byte by byte":        {[]string{length + "\r\n", idle, "G", "ET / HTTP/1.1\r\n\r\n", idle, "G", "ET / HTTP/1.1\r\n\r\n"}, false},
		"in each":                   {[]string{length + "\r\n", idle, length + "\r\n", idle, length + "\r\n"}, true},
		"in every other":            {[]string{length + "\r\n", idle, get, idle, length + "\r\n", idle, get, idle, get}, false},
		"in what was before, twice": {[]string{length + "\r\n" + length + "\r\n", idle, idle, get, idle, get}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var conn script
			watch := &lengthWatch{Conn: &conn}
			for _, conn.next = range tt.read {
				if conn.next == idle {
					forgetLength(watch, http.StateIdle)
					continue
				}
				if _, err := watch.Read(make([]byte, len(conn.next))); err != nil {
					t.Fatal(err)
				}
			}
			r := &http.Request{ProtoMajor: 1, TransferEncoding: []string{"chunked"}}
			r = r.WithContext(withLengthWatch(t.Context(), watch))
			if got := ambiguousLength(r); got != tt.seen {
				t.Errorf("seen: %v, want %v", got, tt.seen)
			}
		})
	}
}
