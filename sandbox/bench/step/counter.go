package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// The programs' names in the User-Agent of their requests.
const (
	pluginAgent     = "rollouts-plugin-step"
	controllerAgent = "rollouts-controller"
)

// counter stands in front of the API server, and counts requests by program.
type counter struct {
	*http.Server
	// kubeconfig is the path of a kubeconfig that leads to the counter.
	kubeconfig string

	mu sync.Mutex
	// requests excludes watches.
	requests, watches map[string]int
}

func newCounter(config *rest.Config, kubeconfig string) (*counter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c, err := countOn(listener, config, func(*httputil.ReverseProxy) {})
	if err != nil {
		return nil, err
	}
	c.kubeconfig = kubeconfig
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`, listener.Addr())
	return c, os.WriteFile(kubeconfig, []byte(text), 0o600)
}

// countOn counts what a listener accepts, and passes it on to the API server as adapted.
func countOn(listener net.Listener, config *rest.Config, adapt func(*httputil.ReverseProxy)) (*counter, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	c := &counter{requests: map[string]int{}, watches: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		// A program that ends leaves unfinished requests behind.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	adapt(proxy)
	c.Server = serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		proxy.ServeHTTP(w, r)
	}))
	return c, nil
}

func (c *counter) count(r *http.Request) {
	agent, _, _ := strings.Cut(r.UserAgent(), "/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		c.watches[agent]++
		return
	}
	c.requests[agent]++
}

// of returns how many requests that are no watches, and how many watches, a program has made.
func (c *counter) of(agent string) (requests, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[agent], c.watches[agent]
}

// all returns how many requests, watches among them, all programs have made.
func (c *counter) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, counts := range []map[string]int{c.requests, c.watches} {
		for _, n := range counts {
			sum += n
		}
	}
	return sum
}
