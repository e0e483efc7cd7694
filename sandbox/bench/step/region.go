package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/pki"
)

// region is another cluster for the plugin, at an address of its own, with TLS and a token: a
// namespace of the one API server, which a counter shows as gauge.Namespace. So lists and
// watches are a real API server's, its objects have UIDs of their own, and five clusters do
// not take the memory and the processors of five API servers, which are not what is measured.
type region struct {
	*counter
	name string // also of the namespace, and of the Secret
}

// newRegion makes the i-th region, with a certificate of an authority, and the Secret with the
// kubeconfig that leads to it.
func (w *world) newRegion(ctx context.Context, i int, authority *pki.Authority) (r *region, err error) {
	r = &region{name: fmt.Sprintf("region-%d", i+1)}
	pair, err := authority.Issue(pki.Certificate{CommonName: r.name, Hosts: []string{cluster.NodeIP.String()}}, time.Now())
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeIP.String(), "0"))
	if err != nil {
		return nil, err
	}
	secure := tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}})
	if r.counter, err = countOn(secure, w.Config, r.adapt); err != nil {
		return nil, err
	}
	text := kubeconfigOf(fmt.Sprintf(`{server: "https://%s", certificate-authority-data: %s}`, listener.Addr(), base64.StdEncoding.EncodeToString(authority.Pair.Cert)), "{token: region}")
	return r, w.Create(ctx, namespace(r.name), gauge.Object(`
apiVersion: v1
kind: Secret
metadata: {name: %s}
stringData: {kubeconfig: %q}`, r.name, text))
}

// adapt makes requests for gauge.Namespace, or for all namespaces, those for the region's,
// and its objects those of gauge.Namespace.
func (r *region) adapt(proxy *httputil.ReverseProxy) {
	const shown = "/namespaces/" + gauge.Namespace + "/"
	there := "/namespaces/" + r.name + "/"
	toServer := proxy.Rewrite
	proxy.Rewrite = func(request *httputil.ProxyRequest) {
		path := request.Out.URL.Path
		switch i := strings.LastIndex(path, "/"); {
		case strings.Contains(path, shown):
			path = strings.Replace(path, shown, there, 1)
		case !strings.Contains(path, "/namespaces/") && i > 0:
			path = path[:i] + there + path[i+1:]
		}
		request.Out.URL.Path = path
		request.Out.Header.Del("Authorization")   // the proxy is the administrator
		request.Out.Header.Del("Accept-Encoding") // what is to be changed
		toServer(request)
	}
	proxy.ModifyResponse = func(response *http.Response) error {
		body := response.Body
		changed, into := io.Pipe()
		response.Body = struct {
			io.Reader
			io.Closer
		}{changed, body}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
		go func() {
			lines := bufio.NewReader(body) // an event of a watch is a line, and so is a list
			for {
				line, err := lines.ReadBytes('\n')
				line = bytes.ReplaceAll(line, []byte(`"namespace":"`+r.name+`"`), []byte(`"namespace":"`+gauge.Namespace+`"`))
				if _, failed := into.Write(line); err != nil || failed != nil {
					_ = into.CloseWithError(err)
					return
				}
			}
		}()
		return nil
	}
}
