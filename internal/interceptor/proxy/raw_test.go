package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// raw is a client that can send any bytes.
type raw struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &raw{t, conn, bufio.NewReader(conn)}
}

func (c *raw) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer to its end.
func (c *raw) answer(method string) (*http.Response, string) {
	c.t.Helper()
	res := c.header(method)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res, string(body)
}

// header reads the header of an answer.
func (c *raw) header(method string) *http.Response {
	c.t.Helper()
	res, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// closed tells whether the proxy closes the connection without sending any more.
func (c *raw) closed() bool {
	_, err := c.reader.ReadByte()
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}
