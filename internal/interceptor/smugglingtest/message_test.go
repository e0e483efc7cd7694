package smugglingtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadMessages(t *testing.T) {
	const head = "POST /a HTTP/1.1\r\nHost: h\r\n"
	for name, tt := range map[string]struct {
		sent string
		want []string // targets and bodies
		err  string
	}{
		"none":           {"", nil, ""},
		"one":            {head + "\r\n", []string{"/a", ""}, ""},
		"length":         {head + "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: h\r\n\r\n", []string{"/a", "abc", "/b", ""}, ""},
		"chunks":         {head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n", []string{"/a", "abc", "/b", ""}, ""},
		"cut":            {head + "Content-Length: 3\r\n\r\na", []string{"/a", ""}, ""},
		"both":           {head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", nil, "more than once"},
		"two lengths":    {head + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", nil, "more than once"},
		"list":           {head + "Content-Length: 3, 3\r\n\r\nabc", nil, "length is"},
		"signed":         {head + "Content-Length: +3\r\n\r\nabc", nil, "length is"},
		"xchunked":       {head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", nil, "encoding is"},
		"bare LF":        {"GET /a HTTP/1.1\nHost: h\r\n\r\n", nil, "CR, LF or NUL"},
		"bare LF later":  {head + "X: a\nY: b\r\n\r\n", nil, "CR, LF or NUL"},
		"fold":           {head + "X: a\r\n b\r\n\r\n", nil, "no field"},
		"space":          {head + "X : a\r\n\r\n", nil, "no field"},
		"chunk's end":    {head + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", nil, "does not end"},
		"chunk's length": {head + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", nil, "begins no chunk"},
		"rubbish":        {head + "\r\nabc\r\n", nil, "begins no request"},
		"no host":        {"GET /a HTTP/1.1\r\n\r\n", nil, "hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			messages, err := readMessages([]byte(tt.sent))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("%v, want %q", err, tt.err)
			}
			if tt.err != "" {
				return
			}
			var got []string
			for _, m := range messages {
				got = append(got, m.Target, string(m.Body))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
