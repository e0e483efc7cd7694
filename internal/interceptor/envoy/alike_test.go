package envoy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/proxy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// echoed is a request as an application sees it.
type echoed struct {
	Request, Host string
	Header        http.Header
	Body          string
	Trailer       http.Header
}

const get = "GET / HTTP/1.1\r\nHost: app.example.com\r\n"

// echo answers with the request that it got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Trailer", "X-Checksum")
	w.Header().Add("X-Twice", "1")
	w.Header().Add("X-Twice", "2")
	w.Header().Set("Server", "echo")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(echoed{r.Method + " " + r.RequestURI + " " + r.Proto, r.Host, r.Header, string(body), r.Trailer})
	w.Header().Set("X-Checksum", "yes")
}

// embedded serves a table with the embedded proxy, and returns its address.
func embedded(t *testing.T, table *routes.Table) string {
	t.Helper()
	return embeddedWith(t, proxy.DefaultSettings(), table)
}

func embeddedWith(t *testing.T, settings proxy.Settings, table *routes.Table) string {
	t.Helper()
	return listen(t, settings, table, (*proxy.Server).Serve)
}

// handingOver serves table with an Envoy whose fallback, an embedded proxy, serves
// standIn. It returns the Envoy's address.
func handingOver(t *testing.T, table, standIn *routes.Table) string {
	t.Helper()
	fallback := netip.MustParseAddrPort(listen(t, proxy.DefaultSettings(), standIn, func(s *proxy.Server, l net.Listener) error { return s.ServeFallback(l, proxy.FallbackPeers{}) }))
	return startEnvoy(t, static(t, newTranslator(t, Options{}), table, []netip.AddrPort{fallback}))
}

func listen(t *testing.T, settings proxy.Settings, table *routes.Table, serve func(*proxy.Server, net.Listener) error) string {
	t.Helper()
	p := proxy.New(settings, slog.New(slog.DiscardHandler))
	p.SetTable(table)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = serve(proxy.NewServer(p), l) }() // if it fails, so does the test, for want of an answer
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// The request that an application gets, and the answer that its client gets, are the same
// through both proxies; doc.go lists the differences.
func TestEnvoyAndTheEmbeddedProxyAnswerAlike(t *testing.T) {
	app := serve(t, http.HandlerFunc(echo))
	w := newWorld(t)
	w.service("app", routes.HTTP1, app)
	w.service("h2c", routes.H2C, app)
	w.object("app", "app", "", nil)
	w.object("h2c", "h2c", "", nil)
	table := w.table()
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil))
	both := map[string]string{"envoy": address, "embedded": embedded(t, table)}

	for name, request := range map[string]string{
		"plain":                 get + "\r\n",
		"to h2c":                "GET / HTTP/1.1\r\nHost: h2c.example.com\r\n\r\n",
		"nobody's":              "GET /a%20b?c=d HTTP/1.1\r\nHost: Nobody.example.com:80\r\n\r\n",
		"forwarded before":      get + "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: before.example.com\r\nForwarded: for=203.0.113.7\r\n\r\n",
		"forwarded twice":       get + "X-Forwarded-For: 203.0.113.7, 203.0.113.8\r\nX-Forwarded-Proto: http\r\n\r\n",
		"to h2c, forwarded":     "GET / HTTP/1.1\r\nHost: h2c.example.com\r\nX-Forwarded-Proto: https\r\n\r\n",
		"request id":            get + "X-Request-Id: mine\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n",
		"an empty request id":   get + "X-Request-Id:\r\n\r\n",
		"an odd request id":     get + "X-Request-Id: \xff\t\"\r\n\r\n",
		"user agent and accept": get + "User-Agent: me\r\nAccept: */*\r\nAccept-Encoding: br\r\n\r\n",
		"path as it is":         "GET /a//b/../c/./%2e%2E/%2F;x=y?q=%zz&?r HTTP/1.1\r\nHost: app.example.com\r\n\r\n",
		"slashes":               "GET //other.example.com//x HTTP/1.1\r\nHost: app.example.com\r\n\r\n",
		"host with port":        "GET / HTTP/1.1\r\nHost: APP.example.com:8080\r\n\r\n",
		"absolute form":         "GET http://app.example.com/x?y HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
		"own method":            "PURGE / HTTP/1.1\r\nHost: app.example.com\r\n\r\n",
		"te trailers":           get + "TE: trailers\r\n\r\n",
		"h2c offer":             get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
		"hop by hop":            get + "Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n\r\n",
		"cookies and repeated":  get + "Cookie: a=b\r\nX-A: 1\r\nX-A: 2\r\nX_B: 3\r\n\r\n",
		"body with length":      "POST / HTTP/1.1\r\nHost: app.example.com\r\nContent-Length: 5\r\n\r\nhello",
		"body in chunks":        "POST / HTTP/1.1\r\nHost: app.example.com\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
		"body in chunks to h2c": "POST / HTTP/1.1\r\nHost: h2c.example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"http/1.0":              "GET / HTTP/1.0\r\nHost: app.example.com\r\n\r\n",
		"header of 50 kB":       get + "X-A: " + strings.Repeat("a", 50<<10) + "\r\n\r\n",
		"200 headers":           get + strings.Repeat("X-A: a\r\n", 200) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]exchanged{}
			for kind, address := range both {
				got[kind] = exchangeRaw(t, address, request)
			}
			if diff := cmp.Diff(got["embedded"], got["envoy"]); diff != "" {
				t.Errorf("-embedded +envoy:\n%s", diff)
			}
		})
	}
}

// A malformed or too large request does not reach the application.
func TestEnvoyAndTheEmbeddedProxyRefuseAlike(t *testing.T) {
	w := newWorld(t)
	var got atomic.Int64
	w.service("app", routes.HTTP1, serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			got.Add(1)
		}
	})))
	w.object("app", "app", "", nil)
	table := w.table()
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), table, nil))
	both := map[string]string{"envoy": address, "embedded": embedded(t, table)}
	for name, request := range map[string]string{
		"a fragment":                 "GET /a//b/../c/./%2e%2E/%2F;x=y?q=%zz&?r#no HTTP/1.1\r\nHost: app.example.com\r\n\r\n",
		"header of 100 kB":           get + "X-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n",
		"no host":                    "GET / HTTP/1.1\r\n\r\n",
		"two hosts":                  get + "Host: other.example.com\r\n\r\n",
		"two lengths":                "POST / HTTP/1.1\r\nHost: app.example.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"negative length":            "POST / HTTP/1.1\r\nHost: app.example.com\r\nContent-Length: -5\r\n\r\nhello",
		"blank before a colon":       get + "X-A : 1\r\n\r\n",
		"no name":                    get + ": 1\r\n\r\n",
		"odd transfer encoding":      "POST / HTTP/1.1\r\nHost: app.example.com\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"other transfer encoding":    "POST / HTTP/1.1\r\nHost: app.example.com\r\nTransfer-Encoding: gzip\r\n\r\n",
		"nul in a header":            get + "X-A: a\x00b\r\n\r\n",
		"no http":                    "hello, is there anybody out there?\r\n\r\n",
		"a chunk that is none":       "POST / HTTP/1.1\r\nHost: app.example.com\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
		"a header of the PROXY kind": "PROXY TCP4 203.0.113.7 203.0.113.8 1 2\r\n" + get + "\r\n",
		"both lengths":               "POST / HTTP/1.1\r\nHost: app.example.com\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
	} {
		for kind, address := range both {
			if name == "both lengths" && kind == "embedded" {
				continue // it reads the chunks and closes the connection, see raw_test.go in package proxy
			}
			t.Run(name+" at "+kind, func(t *testing.T) {
				before := got.Load()
				answer := exchangeRaw(t, address, request)
				if answer.Code != "refused" && answer.Code != "404" || got.Load() != before {
					t.Errorf("answered %v, and %d came to the application", answer, got.Load()-before)
				}
			})
		}
	}
}

// Envoy ignores and removes the headers with which a client could change its behaviour.
func TestEnvoyTakesNoOrdersFromClients(t *testing.T) {
	var got atomic.Int64
	w := newWorld(t)
	w.service("app", routes.HTTP1, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Envoy-") {
				t.Errorf("the application gets %s", name)
			}
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})))
	w.object("app", "app", "", nil)
	address := startEnvoy(t, static(t, newTranslator(t, Options{}), w.table(), nil))
	exchangeRaw(t, address, get+"X-Envoy-Max-Retries: 5\r\nX-Envoy-Retry-On: 5xx\r\nX-Envoy-Upstream-Rq-Timeout-Ms: 1\r\nX-Envoy-Original-Path: /x\r\nX-Envoy-Is-Timeout-Retry: true\r\n\r\n")
	if got.Load() != 1 {
		t.Errorf("the application got %d requests for one", got.Load())
	}
}

// madeRequestID matches the x-request-id that a proxy makes: a UUID of version 4.
var madeRequestID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// exchanged is the part of an answer that has to be the same through both proxies.
type exchanged struct {
	Code   string // or "refused", or "cut"
	Header http.Header
	Body   any
}

func exchangeRaw(t *testing.T, address, request string) exchanged {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(c, request) }() // the answer may come before all of it is sent
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return exchanged{Code: "refused"}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil && res.StatusCode < 400 {
		return exchanged{Code: "cut"}
	}
	_ = res.Body.Close()
	// Each proxy refuses a request with a text of its own.
	if res.StatusCode >= 400 && res.StatusCode != http.StatusNotFound {
		return exchanged{Code: "refused"}
	}
	for _, own := range []string{"Date", "Connection", "Content-Length"} {
		res.Header.Del(own)
	}
	e := exchanged{Code: fmt.Sprint(res.StatusCode), Header: res.Header, Body: string(body)}
	var seen echoed
	if json.Unmarshal(body, &seen) == nil {
		header := seen.Header
		// Envoy sends this for any method that may have a body.
		if header.Get("Content-Length") == "0" {
			header.Del("Content-Length")
		}
		// Each proxy makes its own where there is none.
		if id := header.Get("X-Request-Id"); madeRequestID.MatchString(id) && !strings.Contains(request, id) {
			header["X-Request-Id"] = []string{"made"}
		}
		// For a client on the same machine, Envoy adds the address of the machine.
		// And it puts no blank after a comma.
		forwarded := strings.Split(strings.ReplaceAll(header.Get("X-Forwarded-For"), ", ", ","), ",")
		if last := forwarded[len(forwarded)-1]; net.ParseIP(last) == nil {
			t.Errorf("X-Forwarded-For ends in %q, which is no address", last)
		}
		forwarded[len(forwarded)-1] = "client"
		header["X-Forwarded-For"] = forwarded
		e.Body = seen
	}
	return e
}

// A request for a cold backend goes through Envoy to the interceptor's fallback
// listener, and reaches the application as if it had come through the embedded proxy.
func TestEnvoyFallsBackToTheEmbeddedProxy(t *testing.T) {
	app := serve(t, http.HandlerFunc(echo))
	w := newWorld(t)
	w.service("stable", routes.HTTP1, app)
	w.service("canary", routes.HTTP1)
	split := "- {service: stable, weight: 0}\n- {service: canary, weight: 100}\n"
	w.object("app", "stable", split, nil)
	table := w.table()

	w.object("app", "stable", "- {service: stable, weight: 1}\n- {service: canary, weight: 99}\n", nil)
	standIn := w.table()
	address := handingOver(t, table, standIn)
	const request = "GET /x HTTP/1.1\r\nHost: app.example.com\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n"
	through := exchangeRaw(t, address, request)
	if through.Code != "202" {
		t.Fatalf("answered %v", through)
	}
	if diff := cmp.Diff(exchangeRaw(t, embedded(t, standIn), request), through); diff != "" {
		t.Errorf("-embedded +through Envoy and the fallback listener:\n%s", diff)
	}
}
