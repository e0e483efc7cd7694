package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// resetting is an application that answers so many requests on each connection, reads the
// next one entirely, and resets the connection.
func resetting(t *testing.T, answers int) (address string, requests *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	requests = new(atomic.Int32)
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		_ = c.(*net.TCPConn).SetLinger(0) // Close resets the connection
		for in, left := bufio.NewReader(c), answers; ; left-- {
			r, err := http.ReadRequest(in)
			if err != nil {
				return // the connection is given up
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if left == 0 {
				requests.Add(1)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String(), requests
}

// If an application breaks the connection after it got a request, the request is not sent
// again, to this or another endpoint: it may have had an effect.
func TestRequestsThatArrivedAreSentOnce(t *testing.T) {
	for name, answers := range map[string]int{"on a new connection": 0, "on one that was used before": 1} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, nil)
			s.object("demo")
			s.startEnvoy(envoy.BootstrapOptions{})
			s.connected()
			for what, port := range map[string]uint16{"embedded proxy": s.o.ProxyPort, "kedify-proxy": s.o.KedifyProxy.Port} {
				address, requests := resetting(t, answers)
				other, others := resetting(t, answers)
				s.endpoints("demo", address, other)
				s.envoy.Wait("the new endpoints", func() error {
					known, err := s.envoy.Get("/clusters")
					if err == nil && (!strings.Contains(known, address) || !strings.Contains(known, other)) {
						err = errors.New("they are not known")
					}
					return err
				})
				client := newClient(t, &http.Transport{})
				for range answers {
					s.answered(client, "http", port, "first")
				}
				code := 0
				// The proxy may not take the connection that answered first: until a
				// connection is reset, all is well.
				for range 100 {
					var err error
					if code, _, err = ask(client, "http", port, http.MethodPost, strings.NewReader("body")); err != nil {
						t.Fatal(err)
					}
					if code != http.StatusOK {
						break
					}
				}
				if n := requests.Load() + others.Load(); n != 1 {
					t.Errorf("%s: %d requests were reset, want 1: it was sent again", what, n)
				}
				if code != http.StatusBadGateway && code != http.StatusServiceUnavailable {
					t.Errorf("%s: answered %d, want %s", what, code, fmt.Sprint(http.StatusBadGateway, " or ", http.StatusServiceUnavailable))
				}
			}
		})
	}
}
