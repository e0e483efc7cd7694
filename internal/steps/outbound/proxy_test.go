package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newProxy starts an egress proxy that connects to one server, whatever it is asked for.
func newProxy(t *testing.T, server *httptest.Server) *recording {
	return newRecording(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			fmt.Fprint(w, "by the proxy")
			return
		}
		there, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, here)
			_ = there.Close()
		}()
		_, _ = io.Copy(here, there)
		_ = here.Close()
	})
}

func behind(t *testing.T, proxy string, resolver *net.Resolver, hosts ...string) *Client {
	t.Helper()
	at, err := ParseProxy(strings.Replace(proxy, "http://", "http://user:password@", 1))
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Hosts: hostsOf(t, hosts...), Proxy: at, Resolver: resolver})
}

func TestEgressProxy(t *testing.T) {
	server := newRecording(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "by the server") })
	proxy := newProxy(t, server.Server)
	resolver := newNameServer(t, map[string][]string{"ci.example.com": {"8.8.8.8"}})
	client := behind(t, proxy.URL, resolver, "*.example.com")
	header := http.Header{"Authorization": {"Bearer s3cret"}}
	for _, host := range []string{"ci.example.com", "known-to-the-proxy.example.com"} {
		response, err := client.Do(within(t), Request{Method: "GET", URL: "https://" + host + "/path?query", Header: header, CA: certificateOf(server.Server)})
		if err != nil || string(response.Body) != "by the server" {
			t.Fatalf("https: got %+v, %v", response, err)
		}
		response, err = client.Do(within(t), Request{Method: "GET", URL: "http://" + host + "/path?query", Header: header})
		if err != nil || string(response.Body) != "by the proxy" {
			t.Fatalf("http: got %+v, %v", response, err)
		}
		asked, _ := proxy.all()
		tunnel, plain := asked[len(asked)-2], asked[len(asked)-1]
		if tunnel.Method != "CONNECT" || tunnel.RequestURI != host+":443" || tunnel.Header.Get("Authorization") != "" {
			t.Errorf("https: the proxy got %s %s %v", tunnel.Method, tunnel.RequestURI, tunnel.Header)
		}
		if plain.RequestURI != "http://"+host+"/path?query" {
			t.Errorf("http: the proxy got %s", plain.RequestURI)
		}
		for _, r := range []*http.Request{tunnel, plain} {
			if r.Header.Get("Proxy-Authorization") == "" {
				t.Error("the proxy did not get its password")
			}
		}
	}
	had, _ := server.all()
	if len(had) != 2 || had[0].Header.Get("Proxy-Authorization") != "" || had[0].Header.Get("Authorization") == "" {
		t.Errorf("the server got %+v", had)
	}
}

// What the proxy would connect to is checked as this pod resolves it, and not known is not
// allowed.
func TestTargetsBehindAProxy(t *testing.T) {
	proxy := newRecording(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://metadata.example.com/latest", http.StatusFound)
	})
	resolver := newNameServer(t, map[string][]string{
		"metadata.example.com": {"169.254.169.254"}, "private.example.com": {"10.0.0.5"}, "two.example.com": {"8.8.8.8 127.0.0.1"},
		"other-kind.example.com": {"8.8.8.8 ::1"}, "broken.example.com": {"fail4 fail6"}, "half.example.com": {"8.8.8.8 fail6"}, "redirects.example.com": {"8.8.8.8"},
	})
	client := behind(t, proxy.URL, resolver, "*.example.com", "127.0.0.1", "169.254.169.254")
	for host, want := range map[string]string{
		"metadata.example.com": "the address 169.254.169.254 is not allowed", "169.254.169.254": "is not allowed", "127.0.0.1": "is not allowed",
		"private.example.com": "is private", "two.example.com": "the address 127.0.0.1", "other-kind.example.com": "the address ::1",
		"elsewhere.example": `host "elsewhere.example" is not allowed`,
	} {
		for _, scheme := range []string{"http", "https"} {
			_, err := client.Do(within(t), Request{Method: "POST", URL: scheme + "://" + host})
			wantRefused(t, err, want)
			if kind(err) != "refused, not done" {
				t.Errorf("%s: got %s", host, kind(err))
			}
		}
	}
	for _, host := range []string{"broken.example.com", "half.example.com"} {
		_, err := client.Do(within(t), Request{Method: "POST", URL: "https://" + host})
		if kind(err) != "not done" || !strings.Contains(err.Error(), "it is not known whether the address is allowed") {
			t.Errorf("%s: got %s, %v", host, kind(err), err)
		}
	}
	if asked, _ := proxy.all(); len(asked) != 0 {
		t.Errorf("the proxy was asked for %s", asked[0].RequestURI)
	}
	_, err := client.Do(within(t), Request{Method: "POST", URL: "http://redirects.example.com"})
	wantRefused(t, err, "the address 169.254.169.254 is not allowed")
	if asked, _ := proxy.all(); len(asked) != 1 {
		t.Errorf("the proxy was asked %d times, want 1", len(asked))
	}
}

func TestProxiesThatDoNotServe(t *testing.T) {
	resolver := newNameServer(t, nil)
	refusing := newRecording(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	var cancel context.CancelFunc
	over := make(chan struct{})
	hanging := newRecording(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) {
		cancel()
		<-over
	})
	t.Cleanup(func() { close(over) })
	for proxy, want := range map[string]string{
		refusing.URL:                       "the egress proxy answered 403 Forbidden",
		"http://" + closed.Addr().String(): "connection refused",
		hanging.URL:                        "context canceled",
	} {
		ctx, end := context.WithCancel(within(t))
		cancel = end
		_, err := behind(t, proxy, resolver, "ci.example.com").Do(ctx, Request{Method: "POST", URL: "https://ci.example.com"})
		end()
		if kind(err) != "not done" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %s, %v, want %s", kind(err), err, want)
		}
		if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("the error holds the proxy's password: %v", err)
		}
	}
}

func TestParseProxy(t *testing.T) {
	for text, want := range map[string]bool{
		"http://proxy.example.com:3128": true, "http://user:password@10.0.0.1:3128/": true, "http://[::1]:3128": true,
		"": false, "proxy.example.com:3128": false, "https://proxy.example.com": false, "socks5://proxy.example.com": false,
		"http://": false, "http://:3128": false, "http://proxy/path": false, "http://proxy?x": false, "http://user:pass word@%": false,
	} {
		_, err := ParseProxy(text)
		if (err == nil) != want {
			t.Errorf("%q: got %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("%q: the error holds it: %v", text, err)
		}
	}
}
