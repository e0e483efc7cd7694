package proxy

import (
	"bytes"
	"strings"
	"testing"
)

// The watch sees in pieces what is there in the whole.
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
		if got := watch.seen.Load(); got != want {
			t.Errorf("seen: %v, want %v", got, want)
		}
	})
}
