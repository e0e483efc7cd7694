package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kedify/argo-rollouts-plugin/sandbox/e2e/internal/traffictest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/e2etest"
)

// smuggling are requests that two servers in a row may take for different ones.
// HOST is a host of the proxy's, CASE the name of the case, and TAIL a request for
// /smuggled/CASE that is to stay a part of the first; LENGTH is that of TAIL.
var smuggling = map[string]string{
	// How long is it?
	"two lengths":                   "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"two lengths, long first":       "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\nContent-Length: 0\r\n\r\nTAIL",
	"a list of lengths":             "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0, LENGTH\r\n\r\nTAIL",
	"a negative length":             "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\nTAIL",
	"a signed length":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: +LENGTH\r\n\r\nTAIL",
	"a length in base 16":           "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0x0\r\n\r\nTAIL",
	"a length with a space":         "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0 LENGTH\r\n\r\nTAIL",
	"an empty length":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: \r\n\r\nTAIL",
	"a length beyond 64 bits":       "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 18446744073709551616\r\n\r\nTAIL",
	"a space before the colon":      "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length : LENGTH\r\n\r\nTAIL",
	"a tab before the colon":        "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length\t: LENGTH\r\n\r\nTAIL",
	"a length in the first field":   "POST /CASE HTTP/1.1\r\n Content-Length: LENGTH\r\nHost: HOST\r\n\r\nTAIL",
	"a length that is hop-by-hop":   "POST /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Content-Length\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"a body of a GET":               "GET /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"a body after Expect":           "POST /CASE HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"an expectation that is none":   "POST /CASE HTTP/1.1\r\nHost: HOST\r\nExpect: y 100-continue\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunks, and a length past it":  "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 999\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nTAIL",
	"chunks first, then a length":   "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 999\r\n\r\n0\r\n\r\nTAIL",
	"chunks, and a length short of": "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\nHEXLENGTH\r\nTAIL\r\n0\r\n\r\n",
	"chunks and length in HTTP/1.0": "POST /CASE HTTP/1.0\r\nHost: HOST\r\nContent-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n\r\nTAIL",

	// Is it in chunks?
	"an unknown encoding":             "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\nTAIL",
	"an unknown encoding, length":     "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunked twice":                   "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nTAIL",
	"chunked, chunked":                "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\nTAIL",
	"identity, chunked":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\nTAIL",
	"chunked, identity":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nTAIL",
	"chunked, then identity":          "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nTAIL",
	"an empty encoding":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: \r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunked in quotes":               "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: \"chunked\"\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunked after a vertical tab":    "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: \vchunked\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunked with a space before":     "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunked on a folded line":        "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 999\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\nTAIL",
	"chunked after a bare CR":         "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\nX: a\rTransfer-Encoding: chunked\r\n\r\nTAIL",
	"chunked after a bare LF":         "POST /CASE HTTP/1.1\r\nHost: HOST\r\nContent-Length: 999\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nTAIL",
	"a length after a bare LF":        "POST /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\nContent-Length: LENGTH\r\n\r\nTAIL",
	"a name with an underscore":       "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer_Encoding: chunked\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"chunks that are hop-by-hop":      "POST /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\nHEXLENGTH\r\nTAIL\r\n0\r\n\r\n",
	"a chunk size in base 16 said so": "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\nTAIL",
	"a chunk size beyond 64 bits":     "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\nTAIL",
	"a chunk size with a sign":        "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n-0\r\n\r\nTAIL",
	"a chunk longer than it says":     "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\nTAIL",
	"a chunk extension with LF":       "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n2;\nxx\r\n90\r\n0\r\n\r\nTAIL",
	"a length in the trailer":         "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\nHEXLENGTH\r\nTAIL\r\n0\r\nContent-Length: 0\r\n\r\n",

	// Where does a line end, and what is on it?
	"folded":                    "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\r\n b\r\n\r\n",
	"folded host":               "GET /CASE HTTP/1.1\r\nHost:\r\n HOST\r\n\r\n",
	"bare LF":                   "GET /CASE HTTP/1.1\nHost: HOST\nX: a\n\n",
	"a NUL":                     "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\x00b\r\n\r\n",
	"a bare CR":                 "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\rY: b\r\n\r\n",
	"a control character":       "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: a\x01b\r\n\r\n",
	"a field without a colon":   "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX\r\n\r\n",
	"a field without a name":    "GET /CASE HTTP/1.1\r\nHost: HOST\r\n: a\r\n\r\n",
	"a name with a space":       "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX Y: a\r\n\r\n",
	"a name that is not ASCII":  "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX\xe9: a\r\n\r\n",
	"two hosts":                 "GET /CASE HTTP/1.1\r\nHost: HOST\r\nHost: other.HOST\r\n\r\n",
	"no host":                   "GET /CASE HTTP/1.1\r\nX: a\r\n\r\n",
	"a hop-by-hop host":         "GET /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Host\r\n\r\n",
	"a host with a space":       "GET /CASE HTTP/1.1\r\nHost: HOST other\r\n\r\n",
	"two spaces":                "GET  /CASE HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"a target with a space":     "GET /CASE HTTP/1.1\r\n HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"a target with a tab":       "GET /CASE\tb HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"a target with a NUL":       "GET /CASE\x00b HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"a target with a bare CR":   "GET /CASE\rb HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"a method that is none":     "GE(T /CASE HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"no version":                "GET /CASE\r\nHost: HOST\r\n\r\n",
	"a version that is none":    "GET /CASE HTTP/1.1x\r\nHost: HOST\r\n\r\n",
	"a version that is not yet": "GET /CASE HTTP/1.9\r\nHost: HOST\r\n\r\n",
	"a version in lower case":   "GET /CASE http/1.1\r\nHost: HOST\r\n\r\n",

	// Is it a request at all that follows?
	"an upgrade with a length":           "POST /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"an upgrade to HTTP/2":               "GET /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: LENGTH\r\n\r\nTAIL",
	"a tunnel to somebody with a length": "CONNECT HOST:80 HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\n\r\nTAIL",
}

// pipelined are requests after which a proxy that does not do as it is asked, or is
// generous, finds another one, TAIL, on the connection: that one it may serve, too,
// but then it has to know that it is one, and pass on the answer to it.
var pipelined = map[string]string{
	"a chunk that ends in LF":      "POST /CASE HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\nTAIL",
	"an upgrade that is not taken": "GET /CASE HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nTAIL",
	"a tunnel":                     "CONNECT HOST:80 HTTP/1.1\r\nHost: HOST\r\n\r\nTAIL",
}

// smugglingHTTP2 are requests in HTTP/2 that would be two if they were written in
// HTTP/1.1 as they are. Fields and body have the placeholders of smuggling.
var smugglingHTTP2 = map[string]struct {
	fields [][2]string // besides, or in place of, those of a plain request
	body   string
}{
	"a length short of the body":   {[][2]string{{"content-length", "0"}}, "TAIL"},
	"a length past the body":       {[][2]string{{"content-length", "999"}}, "TAIL"},
	"two lengths":                  {[][2]string{{"content-length", "0"}, {"content-length", "LENGTH"}}, "TAIL"},
	"chunked":                      {[][2]string{{"transfer-encoding", "chunked"}}, "0\r\n\r\nTAIL"},
	"a connection":                 {[][2]string{{"connection", "keep-alive"}}, ""},
	"an upgrade":                   {[][2]string{{"upgrade", "websocket"}, {"connection", "upgrade"}}, "TAIL"},
	"a value with a line end":      {[][2]string{{"x", "a\r\nTransfer-Encoding: chunked"}}, "0\r\n\r\nTAIL"},
	"a value with a request":       {[][2]string{{"x", "a\r\n\r\nTAIL"}}, ""},
	"a value with LF":              {[][2]string{{"x", "a\nTransfer-Encoding: chunked"}}, "0\r\n\r\nTAIL"},
	"a value with a NUL":           {[][2]string{{"x", "a\x00b"}}, ""},
	"a name with a line end":       {[][2]string{{"x: a\r\ntransfer-encoding", "chunked"}}, "0\r\n\r\nTAIL"},
	"a name with a colon":          {[][2]string{{"transfer-encoding: chunked", "a"}}, "0\r\n\r\nTAIL"},
	"a name with a space":          {[][2]string{{"transfer-encoding ", "chunked"}}, "0\r\n\r\nTAIL"},
	"a name in upper case":         {[][2]string{{"Transfer-Encoding", "chunked"}}, "0\r\n\r\nTAIL"},
	"a path with a request":        {[][2]string{{":path", "/CASE HTTP/1.1\r\nHost: HOST\r\n\r\nTAIL"}}, ""},
	"a path with a space":          {[][2]string{{":path", "/CASE HTTP/1.1"}}, ""},
	"an authority with a line end": {[][2]string{{":authority", "HOST\r\nTransfer-Encoding: chunked"}}, "0\r\n\r\nTAIL"},
	"a method with a request":      {[][2]string{{":method", "GET /smuggled/CASE HTTP/1.1\r\nHost: HOST\r\n\r\nGET"}}, ""},
	"a scheme with a line end":     {[][2]string{{":scheme", "http\r\nX: a"}}, ""},
	"two paths":                    {[][2]string{{":path", "/CASE"}, {":path", "/smuggled/CASE"}}, ""},
	"a host besides the authority": {[][2]string{{"host", "other.HOST"}}, ""},
	"a pseudo-header that is not":  {[][2]string{{":x", "a"}}, ""},
	"an extended CONNECT":          {[][2]string{{":method", "CONNECT"}, {":protocol", "websocket"}}, "TAIL"},
}

// oversized are requests whose header is larger than any proxy has to take.
var oversized = map[string]string{
	"one header":         "GET /CASE HTTP/1.1\r\nHost: HOST\r\nX: " + strings.Repeat("a", 256<<10) + "\r\n\r\n",
	"many headers":       "GET /CASE HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("X: a\r\n", 40<<10) + "\r\n",
	"the target":         "GET /CASE?" + strings.Repeat("a", 256<<10) + " HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"the name of header": "GET /CASE HTTP/1.1\r\nHost: HOST\r\n" + strings.Repeat("a", 256<<10) + ": a\r\n\r\n",
	"the method":         strings.Repeat("G", 256<<10) + " /CASE HTTP/1.1\r\nHost: HOST\r\n\r\n",
}

// TestTrafficSmuggling sends what is no request, or could be two. The application
// behind the proxy keeps every byte it gets: whatever the proxy makes of such a
// thing, it is one request at most, written so that it cannot be read in another
// way; and none at all where the header is too large. Whoever comes next is
// served.
func TestTrafficSmuggling(t *testing.T) {
	t.Parallel()
	traffictest.Both(t, func(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) {
		s := startSmuggling(t, n, p)
		for name, text := range smuggling {
			s.at(func() { s.send(name, text) })
		}
		for name, text := range pipelined {
			s.at(func() { s.send(name, text) })
		}
		for name, request := range smugglingHTTP2 {
			s.at(func() { s.sendHTTP2("h2: "+name, request.fields, request.body) })
		}
		tooLarge := map[string]bool{slug("h2: too large"): true}
		// Whoever is still sending may be cut off before the answer arrives.
		refused := func(name string, status int) {
			if status != 0 && (status < 400 || status >= 500) {
				t.Errorf("%s: too large, and answered with %d; want one of 4xx, or nothing", name, status)
			}
		}
		for name, text := range oversized {
			tooLarge[slug(name)] = true
			s.at(func() { refused(name, s.send(name, text)) })
		}
		s.at(func() {
			refused("h2: too large", s.sendHTTP2("h2: too large", [][2]string{{"x", strings.Repeat("a", 256<<10)}}, ""))
		})
		s.running.Wait()
		s.judge(tooLarge)
	})
}

// answerWithin bounds the wait for answers on one connection.
const answerWithin = 10 * time.Second

type smuggler struct {
	t     *testing.T
	proxy traffictest.Proxy
	host  string
	wire  *traffictest.Wire
	// running are the cases under way, and room is for so many at a time.
	running sync.WaitGroup
	room    chan struct{}

	mu sync.Mutex
	// answers counts the answers that a client has got from the application, by
	// what was asked for.
	answers map[string]int
}

func startSmuggling(t *testing.T, n *e2etest.Namespace, p traffictest.Proxy) *smuggler {
	s := &smuggler{t: t, proxy: p, host: n.Name + ".test", wire: traffictest.NewWire(t), answers: map[string]int{}, room: make(chan struct{}, 16)}
	n.ServiceAt("app", s.wire.Addr, "")
	n.Apply(traffictest.Object{Name: "app", Hosts: []string{s.host}, Service: "app"}.Manifest())
	p.Await(t, s.host, "/")
	return s
}

// at runs a case beside others: a proxy takes its time to close a connection.
func (s *smuggler) at(f func()) {
	s.running.Go(func() {
		s.room <- struct{}{}
		defer func() { <-s.room }()
		f()
	})
}

// slug is a case's name in a path.
func slug(name string) string {
	return strings.NewReplacer(" ", "-", ",", "", ":", "", "/", "").Replace(name)
}

func (s *smuggler) fill(name, text string) string {
	tail := fmt.Sprintf("GET /smuggled/%s HTTP/1.1\r\nHost: %s\r\n\r\n", slug(name), s.host)
	return strings.NewReplacer("HEXLENGTH", fmt.Sprintf("%x", len(tail)), "LENGTH", fmt.Sprint(len(tail)), "TAIL", tail,
		"HOST", s.host, "/CASE", "/case/"+slug(name), "CASE", slug(name)).Replace(text)
}

// send sends a case on a connection of its own, with a plain request after it, and
// returns the status of the first answer, 0 when there is none.
func (s *smuggler) send(name, text string) int {
	conn, err := net.Dial("tcp", s.proxy.Address)
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
		return 0
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(answerWithin)) // it is open
	after := fmt.Sprintf("GET /after/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", slug(name), s.host)
	// The proxy may answer before it has read everything, and close.
	go func() { _, _ = io.WriteString(conn, s.fill(name, text)+after) }()
	reader := bufio.NewReader(conn)
	first := 0
	for count := 1; ; count++ {
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			s.t.Logf("%s: %d answers, and then %v", name, count-1, err)
			return first
		}
		body, err := io.ReadAll(res.Body)
		s.t.Logf("%s: answer %d: %s %.80q", name, count, res.Status, body)
		if res.StatusCode == http.StatusContinue {
			count--
			continue
		}
		if count == 1 {
			first = res.StatusCode
		}
		if res.StatusCode == http.StatusOK {
			s.mu.Lock()
			s.answers[string(body)]++
			s.mu.Unlock()
		}
		if err != nil {
			return first
		}
	}
}

// sendHTTP2 sends a case in HTTP/2 on a connection of its own, and returns the
// status of the answer, 0 when there is none.
func (s *smuggler) sendHTTP2(name string, fields [][2]string, body string) int {
	conn, err := net.Dial("tcp", s.proxy.Address)
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
		return 0
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(answerWithin)) // it is open
	all := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "HOST"}, {":path", "/CASE"}}
	all = slices.DeleteFunc(all, func(f [2]string) bool {
		return slices.ContainsFunc(fields, func(other [2]string) bool { return other[0] == f[0] })
	})
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(pseudo bool) { // these come first
		for _, f := range slices.Concat(all, fields) {
			if strings.HasPrefix(f[0], ":") == pseudo {
				_ = encoder.WriteField(hpack.HeaderField{Name: s.fill(name, f[0]), Value: s.fill(name, f[1])})
			}
		}
	}
	write(true)
	write(false)

	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	framer.AllowIllegalWrites = true
	_ = framer.WriteSettings()
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
		_ = framer.WriteData(1, true, []byte(s.fill(name, body)))
	}
	go func() { _, _ = conn.Write(out.Bytes()) }()
	status, how := readHTTP2(conn)
	s.t.Logf("%s: %d %s", name, status, how)
	return status
}

// readHTTP2 reads frames until stream 1 has ended, and says how.
func readHTTP2(conn net.Conn) (status int, how string) {
	framer := http2.NewFramer(io.Discard, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return status, err.Error()
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			_, _ = fmt.Sscan(f.PseudoValue("status"), &status)
			if f.StreamEnded() {
				return status, "answered"
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return status, "answered"
			}
		case *http2.RSTStreamFrame:
			return status, "reset: " + f.ErrCode.String()
		case *http2.GoAwayFrame:
			return status, "sent away: " + f.ErrCode.String()
		}
	}
}

// judge looks at all that has reached the application: requests that it knows
// from the answers, and nothing else.
func (s *smuggler) judge(never map[string]bool) {
	s.t.Helper()
	s.proxy.Await(s.t, s.host, "/last")
	mayFollow := map[string]bool{}
	for name := range pipelined {
		mayFollow[slug(name)] = true
	}
	count := map[string]int{}
	for _, sent := range s.wire.Close() {
		messages, err := traffictest.ReadMessages(sent)
		if err != nil {
			s.t.Errorf("the application was sent what can be read in more than one way: %v", err)
		}
		for _, m := range messages {
			count[m.Target]++
		}
	}
	for _, target := range traffictest.Sorted(count) {
		kind, name, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
		name, _, _ = strings.Cut(name, "?")
		switch {
		case kind == "smuggled" && !mayFollow[name]:
			s.t.Errorf("%s: a second request has reached the application", name)
		case kind == "smuggled" && s.answers[target] != count[target]:
			s.t.Errorf("%s: a second request has reached the application, and its client knows nothing of it", name)
		case kind == "case" && never[name]:
			s.t.Errorf("%s: it has reached the application", name)
		case (kind == "case" || kind == "after") && count[target] > 1:
			s.t.Errorf("%s: the application was asked for %s %d times", name, target, count[target])
		}
	}
	if count["/last"] == 0 {
		s.t.Error("the last request, a plain one, has not reached the application")
	}
}
