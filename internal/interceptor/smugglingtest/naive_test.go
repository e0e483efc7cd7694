package smugglingtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// faults are what a proxy of this test does wrong. Without any it is strict.
type faults struct {
	// Lines and fields.
	bareLF           bool // accepts LF as the end of a line
	foldedLines      bool // accepts folded lines, and sends them folded
	spaceBeforeColon bool // accepts and sends a name with spaces after it, and obeys the field
	anyName          bool // sends any line of the header
	anyValue         bool // sends control characters
	anyRequestLine   bool // sends the request line unchanged
	underscores      bool // sends names with dashes in place of underscores
	anyHost          bool // goes by the first Host, or none, and sends all of them
	unlimited        bool // accepts headers of any size

	// How long is the body?
	firstLength   bool // goes by the first of several lengths, and sends all of them
	lastLength    bool // goes by the last of several lengths, and sends all of them
	anyLength     bool // uses the number at the beginning of a length, and sends the length unchanged
	prefersLength bool // goes by the length where there are chunks, too, and sends both
	prefersChunks bool // goes by the chunks where there is a length, too, and sends both
	anyEncoding   bool // treats an encoding that contains "chunked" as chunked, and sends it unchanged
	otherEncoding bool // ignores encodings other than "chunked", and sends them unchanged
	anyChunkSize  bool // reads a chunk's size as C does, and sends it unchanged
	anyChunkEnd   bool // needs no CRLF behind the data of a chunk
	anyExtension  bool // accepts LF in a chunk's extension, and sends it
	trailers      bool // adds the trailer to the header
	hopByHop      bool // removes every field that Connection names
	getHasNoBody  bool // expects no body of a GET
	expectNoBody  bool // expects no body after Expect
	anyExpect     bool // forwards any expectation

	// What follows?
	tunnels     bool // relays bytes after CONNECT or Upgrade, whatever the application answers
	verbatim    bool // writes the fields of HTTP/2 in HTTP/1.1 as they are
	ignoresHost bool // asks one application for everything
}

// naive is a proxy with some faults.
type naive struct {
	faults
	listener net.Listener
	host     string
	app      *Application
	other    *Application
	patience time.Duration
	serving  sync.WaitGroup
}

func startNaive(t *testing.T, f faults, patience time.Duration) (*naive, Target) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	p := &naive{faults: f, listener: listen(), host: "app.test", app: NewApplication("app", listen()), other: NewApplication("other", listen()), patience: patience}
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) })
		}
	}()
	settle := func() {
		_ = p.listener.Close()
		<-accepting
		p.serving.Wait()
	}
	return p, Target{Address: p.listener.Addr().String(), Host: p.host, App: p.app, Other: p.other, Patience: patience, Settle: settle}
}

// refusal is the error of a refused request; its value is the status.
type refusal int

func (r refusal) Error() string { return strconv.Itoa(int(r)) }

const (
	badRequest = refusal(http.StatusBadRequest)
	maxHead    = 64 << 10
)

// upstream is a connection to an application.
type upstream struct {
	net.Conn
	reader *bufio.Reader
}

// exchange is the state of a client's connection.
type exchange struct {
	*naive
	client    net.Conn
	reader    *bufio.Reader
	upstreams map[*Application]*upstream
}

func (p *naive) serve(client net.Conn) {
	e := &exchange{naive: p, client: client, reader: bufio.NewReader(client), upstreams: map[*Application]*upstream{}}
	defer func() {
		for _, u := range e.upstreams {
			_ = u.Close()
		}
		_ = client.Close()
	}()
	_ = client.SetDeadline(time.Now().Add(p.patience + time.Second))
	if start, err := e.reader.Peek(4); err == nil && string(start) == "PRI " {
		e.end(e.serveHTTP2())
		return
	}
	for {
		again, err := e.one()
		if err != nil {
			e.end(err)
			return
		}
		if !again {
			return
		}
	}
}

// end answers a refused request and closes the connection, when the client has
// read the answer: closing with bytes unread would reset it.
func (e *exchange) end(err error) {
	var status refusal
	if !errors.As(err, &status) {
		return
	}
	_, _ = fmt.Fprintf(e.client, "HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", int(status))
	if tcp, ok := e.client.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, e.client)
}

// line reads a line, and returns it both without its end and unchanged.
func (e *exchange) line() (text, raw string, err error) {
	for {
		part, err := e.reader.ReadString('\n')
		raw += part
		if err != nil {
			return "", "", err
		}
		if len(raw) > maxHead && !e.unlimited {
			return "", "", refusal(http.StatusRequestHeaderFieldsTooLarge)
		}
		if text, found := strings.CutSuffix(raw, "\r\n"); found {
			return text, raw, nil
		}
		if e.bareLF {
			return strings.TrimSuffix(raw, "\n"), raw, nil
		}
		if !e.anyValue && (!e.anyExtension || !strings.Contains(raw, ";")) {
			return "", "", badRequest
		}
	}
}

type field struct{ name, value, raw string }

type request struct {
	method, target string
	line           string // as it is sent
	fields         []field
}

func (r *request) values(name string) (values []string) {
	for _, f := range r.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

func (r *request) remove(names ...string) {
	r.fields = slices.DeleteFunc(r.fields, func(f field) bool { return slices.Contains(names, f.name) })
}

var (
	strictLine  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\\.[01]$")
	strictName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	strictValue = regexp.MustCompile(`^[\t !-~\x80-\xff]*$`)
	strictHost  = regexp.MustCompile(`^[0-9A-Za-z.:-]+$`)
	strictChunk = regexp.MustCompile(`^([0-9A-Fa-f]{1,7})(;[\t !-~]*)?$`)
	digits      = regexp.MustCompile(`^[0-9]{1,9}$`)
)

func (e *exchange) head() (*request, error) {
	text, raw, err := e.line()
	if err != nil {
		return nil, err
	}
	parts := strings.Fields(text)
	if !strictLine.MatchString(text) && !e.anyRequestLine || len(parts) < 2 {
		return nil, badRequest
	}
	r := &request{method: parts[0], target: parts[1], line: raw}
	if !e.anyRequestLine && !e.bareLF {
		r.line = parts[0] + " " + parts[1] + " HTTP/1.1\r\n"
	}
	if r.fields, err = e.fields(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(text, "/1.0") && r.values("transfer-encoding") != nil && !e.prefersLength && !e.prefersChunks {
		return nil, badRequest
	}
	return r, nil
}

func (e *exchange) fields() (all []field, err error) {
	size := 0
	for {
		text, raw, err := e.line()
		if err != nil {
			return nil, err
		}
		if text == "" {
			return all, nil
		}
		if size += len(raw); size > maxHead && !e.unlimited {
			return nil, refusal(http.StatusRequestHeaderFieldsTooLarge)
		}
		if strings.ContainsAny(text[:1], " \t") && e.foldedLines {
			if len(all) > 0 {
				last := &all[len(all)-1]
				last.value = strings.TrimSpace(last.value + " " + strings.TrimSpace(text))
				last.raw += raw
				continue
			}
			all = append(all, field{raw: raw})
			continue
		}
		name, value, found := strings.Cut(text, ":")
		if e.spaceBeforeColon {
			name = strings.TrimRight(name, " \t")
		}
		if !e.anyName && (!found || !strictName.MatchString(name)) || !e.anyValue && !strictValue.MatchString(value) {
			return nil, badRequest
		}
		if e.underscores {
			raw = strings.Replace(raw, name, strings.ReplaceAll(name, "_", "-"), 1)
		}
		all = append(all, field{strings.ToLower(name), strings.Trim(value, " \t"), raw})
	}
}

// application finds the application that a request is for.
func (e *exchange) application(r *request) (*Application, error) {
	hosts := r.values("host")
	if len(hosts) != 1 || !strictHost.MatchString(hosts[0]) {
		if !e.anyHost {
			return nil, badRequest
		}
		hosts = append(hosts, e.host)
	}
	switch {
	case hosts[0] == "other."+e.host && !e.ignoresHost:
		return e.other, nil
	case hosts[0] == e.host || e.anyHost || e.ignoresHost:
		return e.app, nil
	}
	return nil, refusal(http.StatusNotFound)
}

// one serves one request, and tells whether another may come.
func (e *exchange) one() (again bool, err error) {
	r, err := e.head()
	if err != nil {
		return false, err
	}
	if r.method == http.MethodConnect && !e.tunnels {
		return false, refusal(http.StatusMethodNotAllowed)
	}
	if r.method == http.MethodConnect {
		if _, err := io.WriteString(e.client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return false, err
		}
		return false, e.relay(e.app, "")
	}
	to, err := e.application(r)
	if err != nil {
		return false, err
	}
	if r.values("upgrade") != nil && e.tunnels {
		return false, e.relay(to, r.text())
	}
	body, err := e.body(r)
	if err != nil {
		return false, err
	}
	closes := slices.Contains(r.values("connection"), "close")
	e.forwardable(r)
	return !closes, e.forward(to, r, body, closes)
}

// forwardable removes the hop-by-hop fields.
func (e *exchange) forwardable(r *request) {
	framing := []string{"host", "content-length", "transfer-encoding"}
	for _, value := range r.values("connection") {
		for name := range strings.SplitSeq(strings.ToLower(value), ",") {
			if name = strings.TrimSpace(name); e.hopByHop || !slices.Contains(framing, name) {
				r.remove(name)
			}
		}
	}
	r.remove("connection", "upgrade", "http2-settings", "trailer", "te")
	if !e.anyExpect {
		r.remove("expect")
	}
}

// body reads the body of a request, and returns it as it is sent.
func (e *exchange) body(r *request) ([]byte, error) {
	lengths, encodings := r.values("content-length"), r.values("transfer-encoding")
	if expect := r.values("expect"); expect != nil {
		if (len(expect) != 1 || expect[0] != "100-continue") && !e.anyExpect {
			return nil, refusal(http.StatusExpectationFailed)
		}
		if _, err := io.WriteString(e.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
		if e.expectNoBody {
			r.remove("content-length", "transfer-encoding")
			return nil, nil
		}
	}
	if r.method == http.MethodGet && e.getHasNoBody {
		r.remove("content-length", "transfer-encoding")
		return nil, nil
	}
	chunked := len(encodings) == 1 && strings.EqualFold(encodings[0], "chunked")
	if len(encodings) > 0 && !chunked {
		if !e.anyEncoding && !e.otherEncoding {
			return nil, refusal(http.StatusNotImplemented)
		}
		chunked = e.anyEncoding && strings.Contains(strings.ToLower(strings.Join(encodings, ",")), "chunked")
	}
	if len(encodings) > 0 && len(lengths) > 0 {
		switch {
		case e.prefersLength:
			chunked = false
		case !e.prefersChunks && !e.anyEncoding && !e.otherEncoding:
			return nil, badRequest
		}
	}
	if chunked {
		return e.chunks(r)
	}
	length, err := e.length(lengths)
	if err != nil {
		return nil, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(e.reader, body); err != nil {
		return nil, err
	}
	return body, nil
}

func (e *exchange) length(lengths []string) (int, error) {
	if len(lengths) == 0 {
		return 0, nil
	}
	text := lengths[0]
	if len(lengths) > 1 {
		switch {
		case e.firstLength:
		case e.lastLength:
			text = lengths[len(lengths)-1]
		default:
			return 0, badRequest
		}
	}
	if !digits.MatchString(text) && !e.anyLength {
		return 0, badRequest
	}
	// The number at the beginning; 0 if there is none.
	n, _ := strconv.Atoi(regexp.MustCompile(`^\+?[0-9]{0,9}`).FindString(text))
	return n, nil
}

func (e *exchange) chunks(r *request) ([]byte, error) {
	var raw, data bytes.Buffer
	for {
		text, line, err := e.line()
		if err != nil {
			return nil, err
		}
		raw.WriteString(line)
		size, err := e.chunkSize(text)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		chunk := make([]byte, size)
		if _, err := io.ReadFull(e.reader, chunk); err != nil {
			return nil, err
		}
		end, err := e.chunkEnd()
		if err != nil {
			return nil, err
		}
		data.Write(chunk)
		raw.Write(append(chunk, end...))
	}
	trailer, err := e.fields()
	if err != nil {
		return nil, err
	}
	if e.trailers {
		r.fields = append(r.fields, trailer...)
	}
	if e.anyChunkSize || e.anyChunkEnd || e.anyExtension {
		return append(raw.Bytes(), "\r\n"...), nil
	}
	if data.Len() == 0 {
		return []byte("0\r\n\r\n"), nil
	}
	return fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", data.Len(), data.Bytes()), nil
}

// chunkEnd reads what follows the data of a chunk.
func (e *exchange) chunkEnd() (string, error) {
	next, err := e.reader.Peek(2)
	if err != nil {
		return "", err
	}
	end := "\r\n"
	switch {
	case string(next) == end:
	case !e.anyChunkEnd:
		return "", badRequest
	case next[0] == '\n':
		end = "\n"
	default:
		end = ""
	}
	_, err = e.reader.Discard(len(end))
	return end, err
}

func (e *exchange) chunkSize(text string) (int, error) {
	if parts := strictChunk.FindStringSubmatch(text); parts != nil {
		n, err := strconv.ParseInt(parts[1], 16, 32)
		return int(n), err
	}
	if size, _, found := strings.Cut(text, ";\n"); found && e.anyExtension {
		return e.chunkSize(size)
	}
	if !e.anyChunkSize {
		return 0, badRequest
	}
	// As strtoul does: a sign, 0x, and the low bits of a number that is too large.
	text, _, _ = strings.Cut(text, ";")
	text = strings.TrimPrefix(strings.TrimLeft(text, "+-"), "0x")
	n, err := strconv.ParseUint(text[max(0, len(text)-7):], 16, 32)
	if err != nil {
		return 0, badRequest
	}
	return int(n), nil
}

func (r *request) text() string {
	var text strings.Builder
	text.WriteString(r.line)
	for _, f := range r.fields {
		text.WriteString(f.raw)
	}
	text.WriteString("\r\n")
	return text.String()
}

func (e *exchange) dial(to *Application) (*upstream, error) {
	if u := e.upstreams[to]; u != nil {
		return u, nil
	}
	conn, err := net.Dial("tcp", to.Addr.String())
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(e.patience + time.Second))
	u := &upstream{conn, bufio.NewReader(conn)}
	e.upstreams[to] = u
	return u, nil
}

// forward sends a request, and passes on the answer.
func (e *exchange) forward(to *Application, r *request, body []byte, closes bool) error {
	u, err := e.dial(to)
	if err != nil {
		return err
	}
	if _, err := u.Write(append([]byte(r.text()), body...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(u.reader, &http.Request{Method: r.method})
	if err != nil {
		return err
	}
	res.Close = res.Close || closes
	return res.Write(e.client)
}

// relay copies bytes both ways.
func (e *exchange) relay(to *Application, head string) error {
	u, err := e.dial(to)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(u, head); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(u, e.reader)
	}()
	_, err = io.Copy(e.client, u.reader)
	_ = e.client.Close()
	<-done
	return err
}
