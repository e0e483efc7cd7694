package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// h2cClient returns a client that speaks HTTP/2 without TLS, with prior knowledge.
func h2cClient(t *testing.T) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// echoLines answers each line as it comes, and ends with a trailer, as gRPC does.
func echoLines(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		_ = control.EnableFullDuplex()
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		_, _ = fmt.Fprintf(w, "%d %s", r.ProtoMajor, line)
		_ = control.Flush()
	}
	w.Header().Set("Grpc-Status", "0")
	w.Header().Set(http.TrailerPrefix+"X-Unannounced", r.Trailer.Get("X-Sum"))
}

func TestStreamsInAllProtocols(t *testing.T) {
	for _, in := range []string{"HTTP/1.1", "h2c"} {
		for _, out := range []string{"HTTP/1.1", "h2c"} {
			t.Run(in+" to "+out, func(t *testing.T) {
				t.Parallel()
				// Timeouts for headers must not cut a stream that has begun, silent or
				// not.
				const short = time.Second
				w := newWorld(t, func(s *Settings) { s.ResponseHeader, s.ReadHeader, s.Idle = short, short, short })
				appProtocol := map[string]string{"h2c": "grpc"}[out]
				w.service("stable", appProtocol, w.appServer(echoLines, out == "h2c").Listener.Addr().String())
				w.object("")
				w.commit()
				client := w.client
				if in == "h2c" {
					client = h2cClient(t)
				}
				body, write := io.Pipe()
				r := w.request(http.MethodPost, "/pkg.Service/Method", body)
				r.Trailer = http.Header{"X-Sum": nil}
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				lines := bufio.NewReader(res.Body)
				for i := range 5 {
					if i == 2 {
						<-time.After(short * 5 / 4)
					}
					_, _ = fmt.Fprintf(write, "line %d\n", i)
					got, err := lines.ReadString('\n')
					want := fmt.Sprintf("%d line %d\n", map[string]int{"HTTP/1.1": 1, "h2c": 2}[out], i)
					if err != nil || got != want {
						t.Fatalf("got %q, %v; want %q", got, err, want)
					}
				}
				r.Trailer.Set("X-Sum", "42")
				_ = write.Close()
				if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
					t.Errorf("more: %q, %v", rest, err)
				}
				if got := res.Trailer.Get("Grpc-Status"); got != "0" {
					t.Errorf("trailer Grpc-Status %q, want 0", got)
				}
				if got := res.Trailer.Get("X-Unannounced"); got != "42" {
					t.Errorf("the trailer of the request came back as %q, want 42", got)
				}
			})
		}
	}
}

func TestAnswersArriveBeforeTheyEnd(t *testing.T) {
	for name, length := range map[string]string{"of unknown length": "", "of known length": "10"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			more := make(chan struct{})
			w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-more:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "later")
			}))
			w.object("")
			w.commit()
			res, err := w.client.Do(w.request(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			first := make([]byte, 5)
			if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "first" {
				t.Fatalf("%q, %v", first, err)
			}
			close(more)
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "later" {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

func TestCancellationIsPassedOn(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t)
			arrived, left := make(chan struct{}), make(chan struct{})
			appProtocol := map[string]string{"h2c": "kubernetes.io/h2c"}[protocol]
			w.service("stable", appProtocol, w.appServer(func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				close(left)
			}, protocol == "h2c").Listener.Addr().String())
			w.object("")
			w.commit()
			ctx, cancel := context.WithCancel(context.Background())
			r := w.request(http.MethodGet, "/", nil).WithContext(ctx)
			done := make(chan error, 1)
			go func() {
				res, err := w.client.Do(r)
				if err == nil {
					_ = res.Body.Close()
				}
				done <- err
			}()
			await(t, arrived, "the request is at the application")
			cancel()
			await(t, left, "the application knows that the client left")
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
			eventually(t, "the request is counted as 499", func() bool {
				return value(t, w.proxy, "interceptor_requests_total", "demo", "app", "stable", "499") == 1
			})
			if got := value(t, w.proxy, "interceptor_requests_in_flight", "demo", "app", "stable"); got != 0 {
				t.Errorf("%v in flight", got)
			}
		})
	}
}

func TestAnAnswerCutShortIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	w.object("")
	w.commit()
	res, err := w.client.Do(w.request(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("%q came as if it were all", body)
	}
}

func TestResponseHeaderTimeout(t *testing.T) {
	w := newWorld(t)
	var timeout = "20ms"
	release := make(chan struct{})
	w.service("stable", "", w.app(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	w.object("", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Timeouts = &httpv1alpha1.Timeouts{ResponseHeader: &timeout}
	})
	w.commit()
	defer close(release)
	for _, body := range []io.Reader{nil, strings.NewReader("a body")} {
		if res, text := w.do(w.request(http.MethodPost, "/", body)); res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(text, timeout) {
			t.Errorf("%s %q, want a 504 that says %s", res.Status, text, timeout)
		}
	}
}

func TestInformationalAnswersArePassedOn(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.Copy(w, r.Body)
	}))
	w.object("")
	w.commit()
	var codes []int
	r := w.request(http.MethodPost, "/", strings.NewReader("body"))
	r.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: patience}
	defer transport.CloseIdleConnections()
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		codes = append(codes, code)
		if code == http.StatusEarlyHints && header.Get("Link") == "" {
			t.Errorf("early hints without the hint: %v", header)
		}
		return nil
	}}))
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.Header.Get("Link") != "" {
		t.Errorf("%q %v %v", body, res.Header, err)
	}
	if fmt.Sprint(codes) != "[103 100]" {
		t.Errorf("informational answers %v, want 103, and 100 when the application reads", codes)
	}
}

// Only the final answer says that the connection will close: in an informational
// answer, HTTP/2 clients take Connection: close for an error.
func TestInformationalAnswersWhileDraining(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	}))
	w.object("")
	w.commit()
	w.proxy.Drain()
	for _, client := range []*http.Client{w.client, h2cClient(t)} {
		var hints []http.Header
		r := w.request(http.MethodGet, "/", nil)
		w.client = client
		res, _ := w.do(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
				hints = append(hints, http.Header(header))
				return nil
			},
		})))
		if len(hints) != 1 || hints[0].Get("Link") == "" || hints[0]["Connection"] != nil {
			t.Errorf("%s: hints %v", res.Proto, hints)
		}
		if res.ProtoMajor == 1 && !res.Close {
			t.Error("the answer does not say that the connection ends")
		}
	}
}

func TestHead(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
	}))
	w.object("")
	w.commit()
	if res, body := w.do(w.request(http.MethodHead, "/", nil)); res.ContentLength != 1234 || body != "" {
		t.Errorf("length %d, body %q", res.ContentLength, body)
	}
}

func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not so in %v: %s", patience, what)
	}
}

// An application may answer without reading the request's body: the client gets the
// answer before it has sent the whole body.
func TestAnAnswerNeedNotWaitForTheRequest(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	w.object("")
	w.commit()
	c := dial(t, w.address)
	c.send("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1000000\r\n\r\nonly this")
	if res, body := c.answer(http.MethodPost); res.StatusCode != http.StatusRequestEntityTooLarge || body != "too large\n" {
		t.Errorf("%s %q", res.Status, body)
	}
}
