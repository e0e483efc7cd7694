// Command reverseproxy is the floor that `make bench` compares the interceptor
// with: httputil.ReverseProxy as anyone would deploy it, sending 20 in 100
// requests, picked at random, to the canary. Its transport keeps as many
// connections as it needs, and it reuses the buffers of bodies.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
)

// buffers are for copying bodies.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte { return b.pool.Get().(*[32 << 10]byte)[:] }

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }

func main() {
	listen := flag.String("listen", "", "address to listen on")
	stable := flag.String("stable", "", "address of the stable application")
	canary := flag.String("canary", "", "address of the canary")
	flag.Parse()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", *stable
			if rand.IntN(100) < 20 {
				r.Out.URL.Host = *canary
			}
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 256, DisableCompression: true},
		BufferPool: &buffers{pool: sync.Pool{New: func() any { return new([32 << 10]byte) }}},
	}
	fmt.Fprintln(os.Stderr, "reverseproxy:", http.ListenAndServe(*listen, proxy))
	os.Exit(1)
}
