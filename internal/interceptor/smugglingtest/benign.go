package smugglingtest

import "strings"

// Benign are requests that every proxy has to serve, although a proxy that is too
// strict, or confused by what the attacks do, may refuse them.
var Benign = []Case{
	{Name: "a plain GET", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{Name: "a POST with a length", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\n\r\nTAIL", Body: "TAIL"},
	{Name: "a POST without a body", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\n\r\n"},
	{Name: "a POST in chunks", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nHEXLENGTH\r\nTAIL\r\n0\r\n\r\n", Body: "TAIL"},
	{Name: "several chunks", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n00A\r\n0123456789\r\n0\r\n\r\n", Body: "a0123456789"},
	{Name: "a chunk extension", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\na\r\n0\r\n\r\n", Body: "a"},
	{Name: "a trailer", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", Body: "a"},
	{Name: "Chunked in upper case", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTRANSFER-ENCODING: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", Body: "a"},
	{Name: "spaces around a value", Text: "POST /CASE HTTP/1.1\r\nHost: \t HOST \r\nContent-Length:1 \t\r\n\r\na", Body: "a"},
	{Name: "a field without a value", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX:\r\n\r\n"},
	{Name: "a value that is not ASCII", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: \xc3\xa9\r\n\r\n"},
	{Name: "a field twice", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\r\nX: b\r\n\r\n"},
	{Name: "a field of the connection", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: keep-alive, X\r\nX: a\r\n\r\n"},
	{Name: "a DELETE with a body", Text: "DELETE /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\n\r\na", Body: "a"},
	// RFC 9112, 2.2: a server should ignore the line, but need not.
	{Name: "an empty line before it", Text: "\r\nGET /CASE HTTP/1.1\r\nHost: HOST\r\n\r\n", Want: RefusedOrServed},
	{Name: "a request to another host", Text: "GET /CASE HTTP/1.1\r\nHost: other.HOST\r\n\r\n", Other: true},
	{Name: "a header of 8 KiB", Text: "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: " + strings.Repeat("a", 8<<10) + "\r\n\r\n"},
	{Name: "a body of 100 KiB", Text: "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 102400\r\n\r\n" + strings.Repeat("a", 100<<10), Body: strings.Repeat("a", 100<<10)},
	{Name: "h2: a plain POST", HTTP2: &HTTP2{Body: "TAIL"}, Body: "TAIL"},
	{Name: "h2: a GET", HTTP2: &HTTP2{Fields: [][2]string{{":method", "GET"}}}},
	{Name: "h2: a length", HTTP2: &HTTP2{Fields: [][2]string{{"content-length", "LENGTH"}}, Body: "TAIL"}, Body: "TAIL"},
	{Name: "h2: te", HTTP2: &HTTP2{Fields: [][2]string{{"te", "trailers"}}}},
	{Name: "h2: another host", HTTP2: &HTTP2{Fields: [][2]string{{":authority", "other.HOST"}}}, Other: true},
}

func init() {
	for i := range Benign {
		if Benign[i].Want == Refused {
			Benign[i].Want = Served
		}
	}
}
