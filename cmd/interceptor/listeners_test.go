package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A client that reads nothing of its answer is cut off in the end, at the admin and
// metrics ports, too.
func TestAClientThatReadsNothingOfAListIsGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	ls := new(listeners)
	serve := ls.plain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				ended <- err
				return
			}
		}
	}), slog.New(slog.DiscardHandler))
	server := ls.own[0]
	if server.WriteTimeout != time.Minute {
		t.Fatalf("it may take %v to write an answer (0 is for ever), want a minute", server.WriteTimeout)
	}
	server.WriteTimeout = time.Second // for the test alone
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: admin\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Errorf("it writes still, after %v", patience)
	}
}
