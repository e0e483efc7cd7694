package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pires/go-proxyproto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// serveFallback has the world's server serve the fallback listener as well, and
// returns its address.
func (w *world) serveFallback() string { return w.serveFallbackTo(FallbackPeers{}) }

func (w *world) serveFallbackTo(peers FallbackPeers) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeFallback(l, peers) }()
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.server.Shutdown(ctx) // tests of Shutdown check its result
		if err := <-served; err != nil {
			w.t.Errorf("ServeFallback: %v", err)
		}
	})
	return l.Addr().String()
}

// envoyHeader returns the PROXY protocol header with which a kedify-proxy begins a
// connection for an object, and for a Service of the object.
func envoyHeader(t testing.TB, object string, service ...string) string {
	t.Helper()
	h := &proxyproto.Header{
		Version: 2, Command: proxyproto.PROXY, TransportProtocol: proxyproto.TCPv4,
		SourceAddr:      &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 1234},
		DestinationAddr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 8), Port: 80},
	}
	if object != "" {
		records := []proxyproto.TLV{{Type: 0xE2, Value: []byte("x")}, {Type: routes.FallbackTLV, Value: []byte(object)}}
		for _, name := range service {
			records = append(records, proxyproto.TLV{Type: routes.FallbackServiceTLV, Value: []byte(name)})
		}
		if err := h.SetTLVs(records); err != nil {
			t.Fatal(err)
		}
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fromEnvoy returns a client whose connections begin like those of a kedify-proxy.
func (w *world) fromEnvoy(address, object string, h2c bool, service ...string) *http.Client {
	header := envoyHeader(w.t, object, service...)
	transport := &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				_, err = io.WriteString(c, header)
			}
			return c, err
		},
	}
	if h2c {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// othersWorld has the objects demo/app of host app.test and demo/other of host
// other.test.
func othersWorld(t *testing.T, change ...func(*Settings)) *world {
	w := newWorld(t, change...)
	w.service("stable", "", w.app(named("app")))
	w.service("other", "", w.app(named("other")))
	w.object("")
	port := int32(80)
	other := &httpv1alpha1.HTTPScaledObject{}
	other.Namespace, other.Name, other.UID = "demo", "other", "2"
	other.Spec = httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: []string{"other.test"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "other", Port: &port},
	}
	w.builder.SetHTTPScaledObject(other)
	w.commit()
	return w
}

func TestFallbackServesTheObjectThatTheConnectionNames(t *testing.T) {
	w := othersWorld(t)
	address := w.serveFallback()
	for _, tt := range []struct{ name, object, host, want string }{
		{"its own host", "demo/app", "app.test", "app"},
		{"a host of another object", "demo/app", "other.test", "app"},
		{"a host of nobody", "demo/other", "nobody.test", "other"},
		{"an object that is gone", "demo/gone", "other.test", "other"},
		{"no name", "", "other.test", "other"},
		{"no object's name", "demo/app/stable", "other.test", "other"},
		{"nobody at all", "demo/gone", "nobody.test", "no HTTPScaledObject is for host \"nobody.test\" and path \"/x\"\n"},
	} {
		for _, h2c := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", h2c ", h2c), func(t *testing.T) {
				r := w.request(http.MethodGet, "/x", nil)
				r.Host = tt.host
				w.client = w.fromEnvoy(address, tt.object, h2c)
				if _, body := w.do(r); body != tt.want {
					t.Errorf("answered %q, want %q", body, tt.want)
				}
			})
		}
	}
}

// The object's name is not part of the HTTP request, so a client cannot forge it.
func TestFallbackNameCannotBeForged(t *testing.T) {
	w := othersWorld(t)
	address := w.serveFallback()
	forged := func(client *http.Client) string {
		r := w.request(http.MethodPost, "/", strings.NewReader(envoyHeader(t, "demo/other")))
		r.Header = http.Header{"X-Httpso": {"demo/other"}, "Forwarded": {"host=other.test"}, "X-Forwarded-Host": {"other.test"}}
		w.client = client
		_, body := w.do(r)
		return body
	}
	if body := forged(w.client); body != "app" {
		t.Errorf("on the listener of clients it is answered by %s", body)
	}
	if body := forged(w.fromEnvoy(address, "demo/app", false)); body != "app" {
		t.Errorf("on the fallback listener it is answered by %s", body)
	}

	// On the listener for clients, a header of the PROXY protocol is not HTTP.
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "%sGET / HTTP/1.1\r\nHost: app.test\r\n\r\n", envoyHeader(t, "demo/other"))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && res.StatusCode != http.StatusBadRequest {
		t.Errorf("a PROXY header on the listener of clients is answered %s", res.Status)
	}
}

func TestFallbackRefusesOtherConnections(t *testing.T) {
	w := othersWorld(t, func(s *Settings) { s.ReadHeader = time.Second })
	address := w.serveFallback()
	const request = "GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n"
	begun := envoyHeader(t, "demo/app")
	tests := map[string]string{
		"no header":          request,
		"h2c, no header":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"version 1":          "PROXY TCP4 203.0.113.7 203.0.113.8 1234 80\r\n" + request,
		"half a header":      begun[:20],
		"nothing":            "",
		"an endless header":  begun[:14] + "\xff\xff" + strings.Repeat("x", 1<<16),
		"two headers":        begun + begun + request, // the second is not HTTP
		"a broken signature": "\r\n\r\n\x00\r\nQUIX\n" + request,
	}
	for name, sent := range tests {
		t.Run(name, func(t *testing.T) {
			before := value(t, w.proxy, "interceptor_fallback_connections_refused_total")
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(c, sent) // the connection may be closed meanwhile
			answer, err := io.ReadAll(c)
			if netErr, ok := err.(net.Error); ok && netErr.Timeout() { //nolint:errorlint // a net.Conn's own
				t.Fatal("the connection stays open")
			}
			if name == "two headers" {
				if !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
					t.Errorf("answered %q", answer)
				}
				return
			}
			if len(answer) > 0 {
				t.Errorf("answered %q", answer)
			}
			if got := value(t, w.proxy, "interceptor_fallback_connections_refused_total"); got != before+1 {
				t.Errorf("%v refused connections counted, want %v", got, before+1)
			}
		})
	}
}

// The fallback listener takes connections with and without TLS, in HTTP/1.1 and HTTP/2.
func TestFallbackTakesTLS(t *testing.T) {
	w := othersWorld(t)
	// A self-signed certificate.
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS()
	own.Close()
	certificate, pool := own.TLS.Certificates[0], x509.NewCertPool()
	pool.AddCert(own.Certificate())
	address := w.serveFallbackTo(FallbackPeers{TLS: &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert,
	}})
	for _, over := range []bool{true, false} {
		for _, h2c := range []bool{false, true} {
			t.Run(fmt.Sprint("TLS ", over, ", h2c ", h2c), func(t *testing.T) {
				w.client = w.fromEnvoy(address, "demo/other", h2c)
				transport, is := w.client.Transport.(*http.Transport)
				if !is {
					t.Fatal("no transport of its own")
				}
				if over {
					transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
						c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
						if err != nil {
							return nil, err
						}
						secret := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "example.com", Certificates: []tls.Certificate{certificate}})
						_, err = io.WriteString(secret, envoyHeader(t, "demo/other"))
						return secret, err
					}
				}
				for range 3 {
					if _, body := w.do(w.request(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 1<<20)))); body != "other" {
						t.Errorf("answered %q", body)
					}
				}
			})
		}
	}
	t.Run("a handshake that does not go on", func(t *testing.T) {
		w := othersWorld(t, func(s *Settings) { s.ReadHeader = time.Second })
		address := w.serveFallbackTo(FallbackPeers{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}})
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "\x16\x03\x01\x02\x00")
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stays open")
		}
		if got := value(t, w.proxy, "interceptor_fallback_connections_refused_total"); got != 1 {
			t.Errorf("%v refused connections counted, want 1", got)
		}
	})
}

// A TLS connection is closed after an answer once it has reached the maximum age, as
// its certificate is checked only when it begins. A connection without TLS has no
// certificate and stays open.
func TestFallbackConnectionsWithTLSAge(t *testing.T) {
	certFile, keyFile, roots := writeCertificate(t, t.TempDir(), "app.test")
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		over bool
		age  time.Duration
		ages bool
	}{{true, time.Millisecond, true}, {true, 0, false}, {true, time.Hour, false}, {false, time.Millisecond, false}} {
		for _, h2c := range []bool{false, true} {
			t.Run(fmt.Sprint("TLS ", tt.over, ", age ", tt.age, ", h2c ", h2c), func(t *testing.T) {
				w := othersWorld(t)
				address := w.serveFallbackTo(FallbackPeers{TLS: &tls.Config{Certificates: []tls.Certificate{own}}, MaxAge: tt.age})
				w.client = w.fromEnvoy(address, "demo/other", h2c)
				transport, is := w.client.Transport.(*http.Transport)
				if !is {
					t.Fatal("no transport of its own")
				}
				var made atomic.Int32
				transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					made.Add(1)
					c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
					if err != nil {
						return nil, err
					}
					if tt.over {
						c = tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "app.test"})
					}
					_, err = io.WriteString(c, envoyHeader(t, "demo/other"))
					return c, err
				}
				ask := func() {
					if _, body := w.do(w.request(http.MethodPost, "/", strings.NewReader("x"))); body != "other" {
						t.Fatalf("answered %q", body)
					}
				}
				ask()
				if tt.ages {
					eventually(t, "another connection", func() bool { ask(); return made.Load() > 1 })
					return
				}
				for range 20 {
					ask()
				}
				if n := made.Load(); n != 1 {
					t.Errorf("%d connections were made, want 1", n)
				}
			})
		}
	}
}

// A client whose connection is refused may connect again at once, so the log reports
// refused connections only once a second.
func TestFallbackTellsOfClosedConnectionsOnceASecond(t *testing.T) {
	const tries = 20
	for _, over := range []bool{true, false} {
		t.Run(fmt.Sprint("TLS ", over), func(t *testing.T) { tellsOnceASecond(t, over, tries) })
	}
}

func tellsOnceASecond(t *testing.T, over bool, tries int) {
	certFile, keyFile, roots := writeCertificate(t, t.TempDir(), "app.test")
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	logged := new(lines)
	w := newWorld(t)
	w.proxy.log = slog.New(logged)
	address := w.serveFallbackTo(FallbackPeers{
		TLS: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert}, RequireNamespaces: true,
	})
	begun := time.Now()
	for range tries {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if over {
			c = tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "app.test"})
		}
		_, _ = io.WriteString(c, envoyHeader(t, "demo/app"))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
	eventually(t, "all are counted", func() bool {
		return value(t, w.proxy, "interceptor_fallback_connections_refused_total") == float64(tries)
	})
	if n, most := logged.warnings.Load(), int64(time.Since(begun)/time.Second)+2; n == 0 || n > most {
		t.Errorf("%d lines for %d connections, want 1 to %d", n, tries, most)
	}
}

// lines counts what is logged as a warning.
type lines struct{ warnings atomic.Int64 }

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		l.warnings.Add(1)
	}
	return nil
}

func TestFallbackLeavesForwardedAsEnvoyHasIt(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.Edge = true })
	got := make(chan http.Header, 1)
	w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	w.object("")
	w.commit()
	w.client = w.fromEnvoy(w.serveFallback(), "demo/app", false)
	sent := http.Header{
		"X-Forwarded-For": {"198.51.100.1, 203.0.113.7"}, "X-Forwarded-Host": {"a.test"}, "X-Forwarded-Proto": {"https"},
		"Forwarded": {"for=1"}, "User-Agent": {"x"}, "X-Request-Id": {"Envoy's"},
	}
	r := w.request(http.MethodGet, "/", nil)
	r.Header = sent.Clone()
	w.do(r)
	if diff := cmp.Diff(sent, <-got); diff != "" {
		t.Errorf("the application got (-sent +got):\n%s", diff)
	}
}

// Envoy's timeout for the response header must not count the wait for an endpoint: 102
// tells Envoy that the request is being processed.
func TestFallbackTellsEnvoyThatARequestWaits(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		t.Run(fmt.Sprint("h2c ", h2c), func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "")
			w.object("")
			w.commit()
			address := w.serveFallback()
			told := make(chan int, 10)
			ask := func(client *http.Client) (*http.Response, error) {
				r := w.request(http.MethodGet, "/", nil)
				return client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
					Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
						told <- code
						return nil
					},
				})))
			}
			codes := make(chan int, 1)
			go func() {
				res, err := ask(w.fromEnvoy(address, "demo/app", h2c))
				if err != nil {
					t.Error(err)
					codes <- 0
					return
				}
				_ = res.Body.Close()
				codes <- res.StatusCode
			}()
			if code := <-told; code != http.StatusProcessing {
				t.Errorf("told %d", code)
			}
			w.service("stable", "", w.app(named("app")))
			w.commit()
			if code := <-codes; code != http.StatusOK {
				t.Errorf("answered %d", code)
			}
			// A request that does not wait gets no 102.
			res, err := ask(w.fromEnvoy(address, "demo/app", h2c))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if len(told) > 0 {
				t.Errorf("told %d without a wait", <-told)
			}
		})
	}
}

// A waiting request that a kedify-proxy handed over goes to the failover like any
// other.
func TestFallbackFailsOver(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		t.Run(fmt.Sprint("h2c ", h2c), func(t *testing.T) {
			w := newWorld(t)
			w.service("stable", "")
			w.service("away", "", w.app(named("away")))
			w.object("", failover(1, "10m"))
			w.commit()
			address := w.serveFallback()
			r := w.request(http.MethodPost, "/", strings.NewReader("hello"))
			r.Host = "nobody.test"
			w.client = w.fromEnvoy(address, "demo/app", h2c)
			if res, body := w.do(r); res.StatusCode != http.StatusOK || body != "away" {
				t.Errorf("%s %q, want the failover's answer", res.Status, body)
			}
			if got := value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "failover"); got != 1 {
				t.Errorf("%v counted as failover, want 1", got)
			}
		})
	}
}

func TestFallbackIsShutDownWithTheOthers(t *testing.T) {
	w := newWorld(t)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		_, _ = io.WriteString(w, "app")
	}))
	w.object("")
	w.commit()
	address := w.serveFallback()
	client := w.fromEnvoy(address, "demo/app", false)
	bodies := make(chan string, 1)
	go func() {
		res, err := client.Do(w.request(http.MethodGet, "/", nil))
		if err != nil {
			bodies <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		bodies <- string(body)
	}()
	<-arrived
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- w.server.Shutdown(ctx)
	}()
	eventually(t, "the listener is closed", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	close(goOn)
	if body := <-bodies; body != "app" {
		t.Errorf("the request under way got %q", body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{"demo/app", "demo/app.v1", "demo/", "/app", "demo/app/stable", "demo", "", "Demo/app", "demo/app\x00", "demo/-a", "d.e/app"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, ok := parseObject(text)
		if !ok {
			if name.Namespace != "" || name.Name != "" {
				t.Errorf("%q is none, and yet %v", text, name)
			}
			return
		}
		if name.String() != text || strings.Count(text, "/") != 1 || len(text) > 63+1+253 {
			t.Errorf("%q is taken for %v", text, name)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-./", r) }) {
			t.Errorf("%q is taken, which Kubernetes does not", text)
		}
	})
}
