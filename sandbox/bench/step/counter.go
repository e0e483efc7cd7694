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

// counter stands in front of the API server, and counts requests, and apart from these watches,
// by program.
type counter struct {
	// kubeconfig is the path of a kubeconfig that leads to the counter.
	kubeconfig string

	mu       sync.Mutex
	requests map[string]int
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
	text := kubeconfigOf(fmt.Sprintf(`{server: "http://%s"}`, listener.Addr()), "{}")
	return c, os.WriteFile(kubeconfig, []byte(text), 0o600)
}

func kubeconfigOf(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: %s}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: %s}]
current-context: c
`, cluster, user)
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
	c := &counter{requests: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		// A program that ends leaves unfinished requests behind.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	adapt(proxy)
	serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent, _, _ := strings.Cut(r.UserAgent(), "/")
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			agent += ", watching"
		}
		c.mu.Lock()
		c.requests[agent]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	return c, nil
}

// of returns how many requests that are no watches a program has made.
func (c *counter) of(agent string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[agent]
}

// all returns how many requests all programs have made, watches among them.
func (c *counter) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, n := range c.requests {
		sum += n
	}
	return sum
}
