package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// annotated makes HTTPScaledObject demo/<name> for host <name>.test, and Service stable,
// with the annotation.
func (w *world) annotated(name, annotation string) {
	port := int32(80)
	object := &httpv1alpha1.HTTPScaledObject{Spec: httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: []string{name + ".test"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port},
	}}
	object.Namespace, object.Name = "demo", name
	object.Annotations = map[string]string{routes.AccessLogAnnotation: annotation}
	w.builder.SetHTTPScaledObject(object)
}

// writeAccessLog writes the access log of the proxy until end is called, which returns once
// all of it is written.
func (w *world) writeAccessLog(out io.Writer) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { w.proxy.WriteAccessLog(ctx, out) })
	end = func() { cancel(); over.Wait() }
	w.t.Cleanup(end)
	return end
}

// lastLine waits until the access log has the given number of lines, and returns the last.
func (l *logged) lastLine(t *testing.T, number int) string {
	t.Helper()
	var lines []string
	eventually(t, fmt.Sprint(number, " lines"), func() bool {
		lines = strings.Split(l.String(), "\n")
		return len(lines) > number
	})
	if len(lines) != number+1 || lines[number] != "" {
		t.Fatalf("there are %q, want %d lines", lines, number)
	}
	return lines[number-1]
}

// Each request has a line, whatever becomes of it, with what people look for.
func TestAccessLog(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.AccessLog = routes.AccessLogAll })
	out := new(logged)
	w.writeAccessLog(out)
	w.client.Transport.(*http.Transport).DisableKeepAlives = true
	address := w.app(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			echoUpgraded("s", "websocket")(w, r)
			return
		case r.URL.Path == "/short":
			w.Header().Set("Content-Length", "100")
		case r.URL.Path == "/silent":
			<-r.Context().Done()
		case r.URL.Path == "/early":
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	})
	_, closes := w.silent(always)
	dead := unused(t)
	handedOver := w.fromEnvoy(w.serveFallback(), "demo/app", false)
	line := func(endpoint string, change map[string]any) map[string]any {
		fields := map[string]any{
			"request_id": "mine", "object": "demo/app", "service": "stable", "endpoint": endpoint, "method": "GET",
			"host": "app.test", "path": "/", "code": 418.0, "bytes": 5.0, "flags": "-",
		}
		for name, value := range change {
			fields[name] = value
		}
		return fields
	}
	number := 0
	for _, tt := range []struct {
		name, endpoint string
		ask            func(r *http.Request)
		want           map[string]any
	}{
		{"served", address, nil, line(address, nil)},
		{"a path and a query", address, func(r *http.Request) {
			r.URL.Opaque, r.URL.RawQuery = `//app.test/a%20"b`, "secret=1"
			w.do(r)
		}, line(address, map[string]any{"path": `/a%20"b`})},
		{"informed before", address, func(r *http.Request) { r.URL.Path = "/early"; w.do(r) }, line(address, map[string]any{"path": "/early"})},
		{"handed over", address, func(r *http.Request) {
			w.client, handedOver = handedOver, w.client
			w.do(r)
			w.client, handedOver = handedOver, w.client
		}, line(address, map[string]any{"flags": "handed_over"})},
		{"nobody's", address, func(r *http.Request) { r.Host = "Other.test:80"; w.do(r) }, line("", map[string]any{
			"object": nil, "service": nil, "endpoint": nil, "host": "Other.test:80", "code": 404.0, "bytes": 61.0,
		})},
		{"held", "", func(r *http.Request) {
			answer := w.inBackground(w.client, r)
			eventually(t, "the request waits", func() bool { return w.held() == 1 })
			w.service("stable", "", address)
			w.commit()
			<-answer
		}, line(address, map[string]any{"flags": "held"})},
		{"left while it was held", "", func(r *http.Request) {
			ctx, leave := context.WithCancel(r.Context())
			answer := w.inBackground(w.client, r.WithContext(ctx))
			eventually(t, "the request waits", func() bool { return w.held() == 1 })
			leave()
			<-answer
		}, line("", map[string]any{"endpoint": nil, "code": 499.0, "bytes": 0.0, "header_ms": nil, "flags": "held"})},
		{"tried again", closes, nil, line(closes, map[string]any{"code": 502.0, "bytes": 59.0, "flags": "tried_again"})},
		{"not connected", dead, func(r *http.Request) {
			w.object("", waitsFor("500ms"))
			w.commit()
			w.do(r)
		}, line(dead, map[string]any{"code": 502.0, "bytes": 39.0, "flags": "held,tried_again"})},
		{"cut short", address, func(r *http.Request) {
			r.URL.Path = "/short"
			if res, err := w.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}, line(address, map[string]any{"path": "/short", "flags": "cut_short_by_application"})},
		{"a tunnel", address, func(*http.Request) {
			c := dial(t, w.address)
			c.send(strings.Replace(webSocketRequest, "\r\n\r\n", "\r\nX-Request-Id: mine\r\n\r\n", 1))
			c.header(http.MethodGet)
			if got := strings.Count(out.String(), "\n"); got != number {
				t.Errorf("it is logged before its end, in one of %d lines", got)
			}
			_ = c.conn.Close()
		}, line(address, map[string]any{"path": "/chat", "code": 101.0, "bytes": 0.0})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			w.object("")
			w.service("stable", "")
			if tt.endpoint != "" {
				w.service("stable", "", tt.endpoint)
			}
			w.commit()
			r := w.request(http.MethodGet, "/", nil)
			r.Header.Set("X-Request-Id", "mine")
			if tt.ask == nil {
				tt.ask = func(r *http.Request) { w.do(r) }
			}
			begun := time.Now()
			tt.ask(r)
			number++
			text := out.lastLine(t, number)
			var got map[string]any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			at, err := time.Parse("2006-01-02T15:04:05.000Z", fmt.Sprint(got["time"]))
			if err != nil || at.Before(begun.Truncate(time.Millisecond)) || at.After(time.Now()) {
				t.Errorf("it began at %v, %v", got["time"], err)
			}
			duration, headerAfter := got["duration_ms"], got["header_ms"]
			if ms, is := duration.(float64); !is || ms < 0 || ms > float64(patience.Milliseconds()) {
				t.Errorf("it took %v ms", duration)
			}
			if wanted, has := tt.want["header_ms"]; has && headerAfter != wanted {
				t.Errorf("the header came after %v ms", headerAfter)
			} else if ms, is := headerAfter.(float64); !has && (!is || ms < 0 || ms > duration.(float64)) {
				t.Errorf("the header came after %v ms, the end after %v ms", headerAfter, duration)
			}
			for _, varies := range []string{"time", "duration_ms", "header_ms"} {
				delete(got, varies)
				delete(tt.want, varies)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Without an access log nothing is written; with one of annotated objects their requests are.
// An annotation counts at once.
func TestWhichRequestsTheAccessLogHas(t *testing.T) {
	for mode, want := range map[string][]string{
		routes.AccessLogOff:       nil,
		routes.AccessLogAnnotated: {"yes", "plain"},
		routes.AccessLogAll:       {"yes", "no", "plain", "nobody", "plain"},
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.AccessLog = mode })
			w.service("stable", "", w.app(named("stable")))
			w.annotated("yes", "true")
			w.annotated("no", "false")
			w.annotated("plain", "")
			w.commit()
			out := new(logged)
			end := w.writeAccessLog(out)
			ask := func(name string) {
				r := w.request(http.MethodGet, "/", nil)
				r.Host = name + ".test"
				r.Header.Set("X-Request-Id", name)
				w.do(r)
			}
			for _, name := range []string{"yes", "no", "plain", "nobody"} {
				ask(name)
			}
			w.annotated("plain", "true")
			w.commit()
			ask("plain")
			end()
			var got []string
			for _, found := range regexp.MustCompile(`"request_id":"(\w+)"`).FindAllStringSubmatch(out.String(), -1) {
				got = append(got, found[1])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("requests logged (-want +got):\n%s", diff)
			}
		})
	}
}

// What a client sends cannot end a line, nor a field of it, and makes no line long.
func TestAccessLogIsWellFormedWhateverAClientSends(t *testing.T) {
	for _, format := range []string{routes.AccessLogJSON, routes.AccessLogText} {
		t.Run(format, func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.AccessLog, s.AccessLogFormat = routes.AccessLogAll, format })
			w.service("stable", "", w.app(named("stable")))
			w.object("")
			w.commit()
			out := new(logged)
			end := w.writeAccessLog(out)
			// In text, a value without quotes has no blank, no = and no quote.
			wellFormed := regexp.MustCompile(`^(\w+=([^\s="]+|"(\\.|[^"\\\x00-\x1f])*")( |$)){13}$`)
			var asked []string
			for _, odd := range []string{
				`"`, `\`, `"}`, `\"`, " code=500 ", "\t", "\x85", "\xff\xfe", "ü\u2028\u202e", "{}", "=", "-", "null", "\x7f",
				strings.Repeat("x", 60_000), strings.Repeat("ü", 30_000), strings.Repeat("\t", 2000) + "end",
			} {
				for _, request := range []string{
					"GET / HTTP/1.1\r\nHost: app.test\r\nX-Request-Id: a" + odd + "b\r\n\r\n",
					"GET /a" + odd + "b HTTP/1.1\r\nHost: app.test\r\nX-Request-Id: mine\r\n\r\n",
					"G" + odd + "T / HTTP/1.1\r\nHost: app.test\r\nX-Request-Id: mine\r\n\r\n",
					"GET / HTTP/1.1\r\nHost: a" + odd + "b.test\r\nX-Request-Id: mine\r\n\r\n",
				} {
					c := dial(t, w.address)
					_, _ = io.WriteString(c.conn, request)
					res, err := http.ReadResponse(c.reader, nil)
					_ = c.conn.Close()
					if err != nil || res.StatusCode == http.StatusBadRequest && res.Header.Get("X-Content-Type-Options") == "" {
						continue // Go's server has refused it
					}
					asked = append(asked, request)
				}
			}
			end()
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != len(asked) || len(asked) < 30 {
				t.Fatalf("%d requests make %d lines", len(asked), len(lines))
			}
			for i, line := range lines {
				var fields map[string]any
				if format == routes.AccessLogJSON && (json.Unmarshal([]byte(line), &fields) != nil || len(fields) != 13) || format == routes.AccessLogText && !wellFormed.MatchString(line) {
					t.Errorf("%.40q makes the line %s", asked[i], line)
				}
				if len(line) > 8<<10 {
					t.Errorf("the line of %.40q has %d bytes", asked[i], len(line))
				}
			}
		})
	}
}

func TestAccessLogInText(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.AccessLog, s.AccessLogFormat = routes.AccessLogAll, routes.AccessLogText })
	w.commit()
	out := new(logged)
	w.writeAccessLog(out)
	r := w.request(http.MethodGet, "/a=b?c", nil)
	r.Header.Set("X-Request-Id", "mine")
	w.do(r)
	const want = `^time=\S+Z request_id=mine object=- service=- endpoint=- method=GET host=app.test path="/a=b" code=404 bytes=\d+ duration_ms=\d+ header_ms=\d+ flags=-$`
	if line := out.lastLine(t, 1); !regexp.MustCompile(want).MatchString(line) {
		t.Errorf("%s\nis not as %s", line, want)
	}
}

// A reader of the log that hangs keeps no request waiting. The lines that are lost are
// counted; the others come whole once it reads again, and so do those of later requests.
func TestAHungReaderOfTheAccessLog(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.AccessLog = routes.AccessLogAll })
	w.commit()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = from.Close(), to.Close() }()
	w.writeAccessLog(to)
	asked, long := 0, "/"+strings.Repeat("x", 1023)
	ask := func() float64 {
		w.get(long)
		asked++
		return value(t, w.proxy, "interceptor_access_log_lines_dropped_total")
	}
	lost := ask()
	for lost == 0 {
		if lost = ask(); asked > 10_000 {
			t.Fatal("no line is lost")
		}
	}
	_ = from.SetReadDeadline(time.Now().Add(patience))
	lines, whole := bufio.NewReader(from), regexp.MustCompile(`^\{"time":".*"flags":"-"\}\n$`)
	read := func() {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || !whole.MatchString(line) {
			t.Fatalf("no whole line: %q, %v", line, err)
		}
	}
	for range asked - int(lost) {
		read()
	}
	if again := ask(); again != lost {
		t.Errorf("%v lines are lost, and were %v before", again, lost)
	}
	read()
}

// A shutdown waits for the lines of requests that it has cut, and not for who reads them.
func TestTheAccessLogAtAShutdown(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.AccessLog = routes.AccessLogAll })
	begun := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	w.proxy.handler = chain([]func(http.Handler) http.Handler{w.proxy.logAccess}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // the request ends a little later
		abandon(r)
	}))
	w.commit()
	out := new(logged)
	answer := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	<-begun
	cancel()
	w.proxy.WriteAccessLog(ctx, out)
	if !strings.Contains(out.String(), `"code":499,`) {
		t.Errorf("the log is %q", out.String())
	}
	<-answer

	hangs := newWorld(t, func(s *Settings) { s.AccessLog = routes.AccessLogAll })
	hangs.commit()
	writing := make(chan struct{})
	end := hangs.writeAccessLog(writerFunc(func([]byte) (int, error) {
		close(writing)
		select {}
	}))
	hangs.get("/")
	<-writing
	end()
}

type writerFunc func(data []byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }
