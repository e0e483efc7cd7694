package proxy

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	benchClientCount = 64

	benchRequest = "GET /cart?id=1 HTTP/1.1\r\nHost: app.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
	benchAnswer  = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
)

// BenchmarkProxy compares the proxy, with its matching and metrics, with a baseline
// (floor): an httputil.ReverseProxy that picks a backend at random and reuses the
// buffers for bodies. Clients and applications cost as little as possible: they know
// the bytes that the other side sends. 64 connections, an 80/20 split.
func BenchmarkProxy(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		stable, canary := benchApp(b), benchApp(b)
		floor := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = "http", stable
				if rand.IntN(100) < 20 {
					r.Out.URL.Host = canary
				}
				r.SetXForwarded()
			},
			Transport:  &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 4096, DisableCompression: true},
			BufferPool: benchBuffers{},
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := &http.Server{Handler: floor}
		go func() { _ = s.Serve(l) }()
		defer func() { _ = s.Close() }()
		benchClients(b, l.Addr().String(), benchClientCount)
	})
	b.Run("proxy", func(b *testing.B) { benchClients(b, benchWorld(b).address, benchClientCount) })
}

func benchWorld(b *testing.B) *world {
	w := newWorld(b)
	w.service("stable", "", benchApp(b))
	w.service("canary", "", benchApp(b))
	w.object("stable=80 canary=20")
	w.commit()
	return w
}

// benchBuffers are the buffers that the proxy uses.
type benchBuffers struct{}

func (benchBuffers) Get() []byte { return buffers.Get().(*[32 << 10]byte)[:] }

func (benchBuffers) Put(buffer []byte) { buffers.Put((*[32 << 10]byte)(buffer)) }

// benchApp returns the address of an application that answers once for each read,
// whatever it reads.
func benchApp(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				buffer := make([]byte, 4096)
				for {
					if _, err := c.Read(buffer); err != nil {
						return
					}
					if _, err := io.WriteString(c, benchAnswer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func benchClients(b *testing.B, address string, connections int) {
	b.ReportAllocs()
	c := dialBench(b, address, connections)
	b.ResetTimer()
	before := processorTime(b)
	c.send(b, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// benchConnections are connections of clients to a proxy.
type benchConnections []net.Conn

func dialBench(b *testing.B, address string, connections int) benchConnections {
	clients := make(benchConnections, connections)
	for i := range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		clients[i] = c
	}
	return clients
}

// send sends n requests and waits for the answers.
func (c benchConnections) send(b *testing.B, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan error, len(c))
	for _, c := range c {
		go func() {
			reader := bufio.NewReader(c)
			for left.Add(-1) >= 0 {
				if _, err := io.WriteString(c, benchRequest); err != nil {
					done <- err
					return
				}
				if err := skipAnswer(reader); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range c {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// processorTime returns the processor time that the process has taken, with the clients'
// and the applications'. On a busy machine it says more than the rate.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// skipAnswer reads a header and the two bytes after it.
func skipAnswer(reader *bufio.Reader) error {
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := reader.Discard(2)
			return err
		}
	}
}
