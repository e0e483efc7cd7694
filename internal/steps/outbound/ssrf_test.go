package outbound

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func hostsOf(t *testing.T, texts ...string) Hosts {
	t.Helper()
	hosts, err := ParseHosts(texts)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// within returns a context whose deadline no passing test reaches.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// counting is a server that counts its requests.
func counting(t *testing.T, listener net.Listener) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var count atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { count.Add(1) }))
	if listener != nil {
		_ = server.Listener.Close()
		server.Listener = listener
	}
	server.Start()
	t.Cleanup(server.Close)
	return server, &count
}

func portOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func wantRefused(t *testing.T, err error, words string) {
	t.Helper()
	if !strings.HasPrefix(kind(err), "refused") {
		t.Fatalf("got %v (%s), want it to be final", err, kind(err))
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("got %q, want it to hold %q", err, words)
	}
}

func TestAllowedHosts(t *testing.T) {
	allowed := hostsOf(t, "ci.example.com", "*.Apps.example.com", "metrics.example.com:8443", "10.0.0.5", "[fd00::5]:8080", "fd00::6", "*.example.org:80")
	for url, want := range map[string]bool{
		"https://ci.example.com/runs":             true,
		"http://CI.Example.COM:8080":              true,
		"https://ci.example.com./":                true,
		"https://ci.example.com.evil.example":     false,
		"https://evilci.example.com":              false,
		"https://x.ci.example.com":                false,
		"https://example.com":                     false,
		"https://a.apps.example.com":              true,
		"https://a.b.APPS.example.com":            true,
		"https://apps.example.com":                false,
		"https://evilapps.example.com":            false,
		"https://metrics.example.com:8443/api":    true,
		"https://metrics.example.com/api":         false,
		"http://10.0.0.5:9090":                    true,
		"http://[::ffff:10.0.0.5]":                true,
		"http://10.0.0.50":                        false,
		"http://[fd00::5]:8080":                   true,
		"http://[fd00:0:0::5]:8080":               true,
		"http://[fd00::5]":                        false,
		"http://[fd00::6]:1":                      true,
		"http://a.example.org":                    true,
		"https://a.example.org":                   false,
		"https://a.example.org:80":                true,
		"https://ci.example.com@evil.example/":    false,
		"https://evil.example/ci.example.com":     false,
		"https://evil.example/?x=@ci.example.com": false,
		"https://evil.example#@ci.example.com":    false,
		"https://ci.example.com/a..b/.c/...?../":  true,
	} {
		at, err := ParseURL(url)
		if got := err == nil && allowed.access(at) != notAllowed; got != want {
			t.Errorf("%s: allowed %v (%v), want %v", url, got, err, want)
		}
	}
	if (Hosts)(nil).access(Target{host: "ci.example.com", port: "443"}) != notAllowed {
		t.Error("no hosts allow one")
	}
}

func TestAllowedHostsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "*", "*.", "https://ci.example.com", "ci.example.com/", "ci.example.com:", "ci.example.com:0", "ci.example.com:70000", "a b", "user@ci.example.com", "*.10.0.0.1", "a.*.example.com", "-a.example.com", "ex\u00e4mple.com", "1.2.3", "fe80::1%eth0", "0x7f.1", "*.*.example.com"} {
		if hosts, err := ParseHosts([]string{text}); err == nil {
			t.Errorf("%q is taken: %+v", text, hosts)
		} else if !strings.Contains(err.Error(), "want a host without scheme") {
			t.Errorf("%q: got %q", text, err)
		}
	}
}

// Each of these URLs is meant to reach the server on 127.0.0.1, whose address is allowed
// here, so that only the check of hosts keeps them away.
func TestURLsThatPretendToBeAnAllowedHost(t *testing.T) {
	server, count := counting(t, nil)
	port := portOf(t, server)
	client := New(Options{Hosts: hostsOf(t, "allowed.example", "*.allowed.example"), Addresses: loopback})
	for name, url := range map[string]string{
		"plain address":            "http://127.0.0.1:PORT/",
		"decimal address":          "http://2130706433:PORT/",
		"octal address":            "http://0177.0.0.1:PORT/",
		"hexadecimal address":      "http://0x7f000001:PORT/",
		"short address":            "http://127.1:PORT/",
		"one number":               "http://0:PORT/",
		"IPv6":                     "http://[::1]:PORT/",
		"IPv4 in IPv6":             "http://[::ffff:127.0.0.1]:PORT/",
		"IPv4 in IPv6, digits":     "http://[::ffff:7f00:1]:PORT/",
		"zone":                     "http://[::1%25lo]:PORT/",
		"user that looks like it":  "http://allowed.example@127.0.0.1:PORT/",
		"password":                 "http://allowed.example:80@127.0.0.1:PORT/",
		"user of an allowed host":  "http://user:password@allowed.example:PORT/",
		"two at signs":             "http://a@allowed.example@127.0.0.1:PORT/",
		"backslash":                `http://allowed.example\@127.0.0.1:PORT/`,
		"backslash as a path":      `http://127.0.0.1:PORT\.allowed.example/`,
		"fragment":                 "http://127.0.0.1:PORT#.allowed.example/",
		"query":                    "http://127.0.0.1:PORT?.allowed.example/",
		"encoded dot":              "http://127%2e0.0.1:PORT/",
		"encoded slash":            "http://127.0.0.1:PORT%2f.allowed.example/",
		"trailing dot":             "http://127.0.0.1.:PORT/",
		"localhost":                "http://localhost:PORT/",
		"localhost, upper case":    "http://LOCALHOST.:PORT/",
		"kelvin sign":              "http://\u212a.allowed.example:PORT/",
		"full-width digits":        "http://\uff11\uff12\uff17.0.0.1:PORT/",
		"circled digits":           "http://\u2460\u2461\u2466.0.0.1:PORT/",
		"ideographic full stop":    "http://127\u30020.0.1:PORT/",
		"new line":                 "http://allowed.example\n@127.0.0.1:PORT/",
		"line in the host":         "http://allowed.example\r\nHost: x:PORT/",
		"tab":                      "http://127.0.0.1\t:PORT/",
		"space":                    "http:// 127.0.0.1:PORT/",
		"no scheme":                "//127.0.0.1:PORT/",
		"opaque":                   "http:127.0.0.1:PORT/",
		"file":                     "file:///etc/passwd",
		"other scheme":             "gopher://127.0.0.1:PORT/",
		"other scheme, upper case": "FTP://allowed.example:PORT/",
		"no host":                  "http:///allowed.example",
		"port that is no number":   "http://allowed.example:PORT@/",
		"port 0":                   "http://allowed.example:0/",
		"port above all":           "http://allowed.example:65537/",
		"upwards":                  "http://allowed.example:PORT/a/../b",
		"upwards at the end":       "http://allowed.example:PORT/a/..",
		"upwards, encoded":         "http://allowed.example:PORT/a/%2e%2E/b",
		"upwards, slash encoded":   "http://allowed.example:PORT/a/..%2fb",
		"upwards, backslash":       "http://allowed.example:PORT/a%5c..%5cb",
		"upwards, semicolon":       "http://allowed.example:PORT/a/..;x/b",
		"here":                     "http://allowed.example:PORT/a/./b",
		"empty label":              "http://a..allowed.example:PORT/",
		"nothing":                  "",
		"a dot":                    "http://.:PORT/",
		"long":                     "http://allowed.example:PORT/" + strings.Repeat("a", maxURL),
	} {
		t.Run(name, func(t *testing.T) {
			url = strings.ReplaceAll(url, "PORT", port)
			_, err := client.Do(within(t), Request{Method: "GET", URL: url})
			wantRefused(t, err, "")
		})
	}
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestWithoutAllowedHostsNothingIsSent(t *testing.T) {
	server, count := counting(t, nil)
	client := New(Options{Addresses: loopback})
	_, err := client.Do(within(t), Request{Method: "GET", URL: server.URL + "/secret-path?secret=query"})
	wantRefused(t, err, `host "127.0.0.1:`+portOf(t, server)+`" is not allowed`)
	wantRefused(t, err, "--allow-host=127.0.0.1:"+portOf(t, server))
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error holds path or query: %q", err)
	}
	if count.Load() != 0 {
		t.Error("the request was sent")
	}
	_, err = client.Do(within(t), Request{Method: "GET", URL: server.URL, Hosts: hostsOf(t, "127.0.0.1")})
	if err != nil {
		t.Errorf("a host of the request's own: %v", err)
	}
	client = New(Options{Addresses: loopback, Hosts: hostsOf(t, "127.0.0.1")})
	_, err = client.Do(within(t), Request{Method: "GET", URL: server.URL, Hosts: hostsOf(t, "other.example"), HostsOnly: true})
	wantRefused(t, err, "not among the hosts of the preset")
	_, err = client.Do(within(t), Request{Method: "GET", URL: server.URL, HostsOnly: true})
	wantRefused(t, err, "not among the hosts of the preset")
	if n := count.Load(); n != 1 {
		t.Errorf("%d requests came through, want 1", n)
	}
}

func TestAddresses(t *testing.T) {
	for addresses, want := range map[string]struct{ byName, byWildcard bool }{
		"127.0.0.1 127.255.0.3 ::1 0.0.0.0 0.1.2.3 :: ::ffff:127.0.0.1 ::ffff:0.0.0.0 ::127.0.0.1 ::8.8.8.8":                  {false, false},
		"169.254.169.254 169.254.0.1 fe80::1 fe80::1%eth0 febf::1 ::ffff:169.254.169.254":                                     {false, false},
		"fd00:ec2::254 fd00:ec2::23 fd00:ec2:ffff::1 fd20:ce::254 100.100.100.200 168.63.129.16 192.0.0.192":                  {false, false},
		"224.0.0.1 239.1.1.1 ff02::1 255.255.255.255 240.0.0.1":                                                               {false, false},
		"64:ff9b::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::127.0.0.1 2002:7f00:1:: 2002:a9fe:a9fe::1 2001:0:1::1":        {false, false},
		"10.0.0.1 172.16.3.4 172.31.255.255 192.168.1.1 100.64.0.1 198.18.0.1 fd00::1 fc00::1 fd00:ec3::1 ::ffff:10.0.0.1":    {true, false},
		"64:ff9b::10.0.0.1 2002:a00:1::1 fec0::1":                                                                             {true, false},
		"8.8.8.8 172.32.0.1 11.0.0.1 100.128.0.1 2606:4700::1111 64:ff9b::8.8.8.8 2002:808:808::1 ::ffff:8.8.8.8 192.169.1.1": {true, true},
	} {
		for _, address := range strings.Fields(addresses) {
			for by, want := range map[access]bool{byName: want.byName, byWildcard: want.byWildcard} {
				err := New(Options{}).checkAddress(netip.MustParseAddr(address), by)
				if (err == nil) != want {
					t.Errorf("%s (%d): got %v, want allowed to be %v", address, by, err, want)
				}
				if err != nil {
					wantRefused(t, err, "--allow-address=")
				}
			}
		}
	}
	client := New(Options{Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("10.1.0.0/16")}})
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "64:ff9b::127.0.0.1": true, "fe80::7%eth0": true, "10.1.2.3": true,
		"127.0.0.2": false, "::1": false, "169.254.169.254": false, "10.2.0.1": false,
	} {
		if err := client.checkAddress(netip.MustParseAddr(address), byWildcard); (err == nil) != want {
			t.Errorf("%s: got %v, want allowed to be %v", address, err, want)
		}
	}
}

func TestNamesOfForbiddenAddresses(t *testing.T) {
	server, count := counting(t, nil)
	resolver := newNameServer(t, map[string][]string{
		"loopback.example": {"127.0.0.1"}, "loopback6.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"},
		"metadata.example": {"169.254.169.254"}, "unspecified.example": {"0.0.0.0"},
	})
	client := New(Options{Hosts: hostsOf(t, "*.example", "127.0.0.1", "localhost"), Resolver: resolver})
	for _, host := range []string{"loopback.example", "loopback6.example", "mapped.example", "metadata.example", "unspecified.example", "127.0.0.1", "localhost"} {
		_, err := client.Do(within(t), Request{Method: "POST", URL: "http://" + host + ":" + portOf(t, server) + "/"})
		wantRefused(t, err, "is not allowed")
		wantRefused(t, err, "--allow-address=")
	}
	if n := count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// Who controls a name under a wildcard does not reach the cluster.
func TestWildcardsReachPublicAddressesAlone(t *testing.T) {
	resolver := newNameServer(t, map[string][]string{"a.apps.example": {"10.0.0.5"}, "b.apps.example": {"fd00::5"}, "c.apps.example": {"127.0.0.1"}})
	for name, test := range map[string]struct {
		allowed, preset []string
	}{
		"of the registration": {allowed: []string{"*.apps.example"}},
		"of a preset":         {preset: []string{"*.apps.example"}, allowed: []string{"other.example"}},
	} {
		client := New(Options{Hosts: hostsOf(t, test.allowed...), Resolver: resolver})
		for _, host := range []string{"a.apps.example", "b.apps.example"} {
			_, err := client.Do(within(t), Request{Method: "POST", URL: "http://" + host, Hosts: hostsOf(t, test.preset...)})
			wantRefused(t, err, "is private, and a host that is allowed by a wildcard reaches public addresses alone")
			wantRefused(t, err, "--allow-address=")
			if !strings.Contains(kind(err), "not done") {
				t.Errorf("%s: got %s", name, kind(err))
			}
		}
	}
	location := "http://a.apps.example/"
	redirecting := newRecording(t, (*httptest.Server).Start, redirectTo(http.StatusFound, &location))
	byRedirect := New(Options{Hosts: hostsOf(t, "127.0.0.1", "*.apps.example"), Addresses: loopback, Resolver: resolver})
	_, err := byRedirect.Do(within(t), Request{Method: "GET", URL: redirecting.URL})
	wantRefused(t, err, "redirected to GET http://a.apps.example: the address 10.0.0.5 is private")
	for name, test := range map[string]struct {
		allowed, preset []string
		want            access
	}{
		"the name beside the wildcard": {allowed: []string{"*.apps.example", "a.apps.example"}, want: byName},
		"the name in the preset":       {allowed: []string{"*.apps.example"}, preset: []string{"a.apps.example"}, want: byName},
		"two wildcards":                {allowed: []string{"*.example"}, preset: []string{"*.apps.example"}, want: byWildcard},
		"neither":                      {allowed: []string{"*.other.example"}, want: notAllowed},
	} {
		at, err := ParseURL("http://a.apps.example")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := New(Options{Hosts: hostsOf(t, test.allowed...)}).allow(at, Request{Hosts: hostsOf(t, test.preset...)})
		if got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
	server, count := counting(t, nil)
	client := New(Options{Hosts: hostsOf(t, "*.apps.example"), Addresses: loopback, Resolver: resolver})
	if _, err := client.Do(within(t), Request{Method: "GET", URL: "http://c.apps.example:" + portOf(t, server)}); err != nil || count.Load() != 1 {
		t.Errorf("an address of --allow-address: %v", err)
	}
}

// A name has an allowed address at first, and a forbidden one later.
func TestRebinding(t *testing.T) {
	theirs, ours := listenOnOnePort(t)
	outside, outsideCount := counting(t, theirs)
	_, victimCount := counting(t, ours)
	resolver := newNameServer(t, map[string][]string{"rebound.example": {"127.0.0.2", "127.0.0.1"}})
	client := New(Options{
		Hosts: hostsOf(t, "rebound.example"), Resolver: resolver,
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	})
	request := Request{Method: "POST", URL: "http://rebound.example:" + portOf(t, outside)}
	if _, err := client.Do(within(t), request); err != nil {
		t.Fatal(err)
	}
	_, err := client.Do(within(t), request)
	wantRefused(t, err, "the address 127.0.0.1 is not allowed")
	if outsideCount.Load() != 1 || victimCount.Load() != 0 {
		t.Errorf("%d requests to the outside and %d to the victim, want 1 and 0", outsideCount.Load(), victimCount.Load())
	}
}

// listenOnOnePort listens on the same port of 127.0.0.2 and 127.0.0.1. It tries other
// ports if another program has one of them.
func listenOnOnePort(t *testing.T) (theirs, ours net.Listener) {
	t.Helper()
	var err error
	for range 100 {
		if theirs, err = net.Listen("tcp", "127.0.0.2:0"); err != nil {
			break
		}
		_, port, _ := net.SplitHostPort(theirs.Addr().String())
		if ours, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return theirs, ours
		}
		_ = theirs.Close()
	}
	t.Fatal(err)
	return nil, nil
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy, proxied := counting(t, nil)
	// net/http reads the environment once per process.
	child := exec.CommandContext(within(t), os.Args[0], "-test.run=^TestInAnEnvironmentWithAProxy$", "-test.v")
	child.Env = append(os.Environ(), "OUTBOUND_TEST_CHILD=1")
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		child.Env = append(child.Env, name+"="+proxy.URL)
	}
	if output, err := child.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("%v\n%s", err, output)
	}
	if n := proxied.Load(); n != 0 {
		t.Errorf("the proxy had %d requests", n)
	}
}

func TestInAnEnvironmentWithAProxy(t *testing.T) {
	if os.Getenv("OUTBOUND_TEST_CHILD") == "" {
		t.Skip("is run by TestProxyOfTheEnvironmentIsNotUsed")
	}
	server, count := counting(t, nil)
	resolver := newNameServer(t, map[string][]string{"ci.example": {"127.0.0.1"}}) // net/http uses no proxy for a loopback address
	client := New(Options{Hosts: hostsOf(t, "ci.example"), Resolver: resolver, Addresses: loopback})
	if _, err := client.Do(within(t), Request{Method: "GET", URL: "http://ci.example:" + portOf(t, server)}); err != nil {
		t.Fatal(err)
	}
	if n := count.Load(); n != 1 {
		t.Errorf("the server had %d requests, want 1", n)
	}
	encrypted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(encrypted.Close)
	at := "https://ci.example:" + portOf(t, encrypted)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encrypted.Certificate().Raw})
	transport, err := client.RoundTripper(Request{URL: at, CA: ca}, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(within(t), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}
