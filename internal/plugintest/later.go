package plugintest

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// Later returns a URL at which nothing listens yet, and a function that makes it lead to
// the server at another URL until the test ends.
func Later(t *testing.T, server string) (address string, listen func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return "http://" + host, func() {
		t.Helper()
		target, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		front := &http.Server{Handler: httputil.NewSingleHostReverseProxy(target), ReadHeaderTimeout: time.Minute}
		go func() { _ = front.Serve(listener) }()
		t.Cleanup(func() { _ = front.Close() })
	}
}
