package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// roomUsed returns how many bytes of the waiting room are used, and fails the test if
// more bytes or requests are in it than allowed.
func (w *world) roomUsed() int64 {
	w.t.Helper()
	room := w.proxy.waiting
	room.mu.Lock()
	defer room.mu.Unlock()
	if used := room.all.used; used[inRequests] > room.most[inRequests] || used[inBytes] > room.most[inBytes] {
		w.t.Fatalf("%v are used of %v", used, room.most)
	}
	return room.all.used[inBytes]
}

// echo answers with the body of the request, and with its trailer X-Sum as a header.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
	_, _ = w.Write(body)
}

// After a wait the application gets the same HTTP/2 body, however much of it was read
// ahead, and also if another object takes the request over.
func TestBodiesOfHeldRequestsInHTTP2(t *testing.T) {
	for _, size := range []int{0, 5, firstReadAhead, mostReadAhead - 1, mostReadAhead, mostReadAhead + 1, 100 << 10, 1 << 20} {
		for _, known := range []bool{true, false} {
			for _, trailer := range []bool{true, false} {
				t.Run(fmt.Sprint(size, " bytes, length known ", known, ", trailer ", trailer), func(t *testing.T) {
					w := newWorld(t)
					w.service("stable", "kubernetes.io/h2c")
					w.object("")
					w.commit()
					body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
					r := w.request(http.MethodPost, "/", struct{ io.Reader }{bytes.NewReader(body)})
					if known {
						r.ContentLength = int64(size)
					}
					if trailer {
						r.Trailer = http.Header{"X-Sum": {"42"}}
					}
					type answer struct {
						res  *http.Response
						body []byte
						err  error
					}
					answered := make(chan answer, 1)
					client := h2cClient(t)
					go func() {
						res, err := client.Do(r)
						if err != nil {
							answered <- answer{err: err}
							return
						}
						defer res.Body.Close()
						body, err := io.ReadAll(res.Body)
						answered <- answer{res, body, err}
					}()
					eventually(t, "the request is held", func() bool { return w.held() == 1 })
					w.otherObject()
					w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "app"})
					w.commit()
					eventually(t, "another object holds it", func() bool { return w.heldFor("demo/other") == 1 })
					w.roomUsed()
					w.service("stable", "kubernetes.io/h2c", w.appServer(echo, true).Listener.Addr().String())
					w.commit()
					got := <-answered
					if got.err != nil {
						t.Fatal(got.err)
					}
					if got.res.StatusCode != http.StatusOK || !bytes.Equal(got.body, body) {
						t.Errorf("%s, a body of %d bytes; want 200 with the %d that were sent", got.res.Status, len(got.body), size)
					}
					if sum := got.res.Header.Get("X-Sum"); trailer && (size > 0 || !known) && sum != "42" {
						t.Errorf("the trailer came as %q", sum)
					}
					if used := w.roomUsed(); used != 0 {
						t.Errorf("%d bytes of the room are used at the end", used)
					}
				})
			}
		}
	}
}

// When another object takes a request over, that object is charged the bytes of the
// body that have arrived, even if no more arrive.
func TestBodyThatAnotherObjectTakesOver(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "kubernetes.io/h2c")
	w.object("")
	w.commit()
	body, write := io.Pipe()
	answer := w.inBackground(h2cClient(t), w.request(http.MethodPost, "/", body))
	_, _ = io.WriteString(write, "hello")
	const least = heldRequest + firstReadAhead + chunkHTTP2
	eventually(t, "the beginning is charged", func() bool { return w.roomUsed() > least })
	w.otherObject()
	w.builder.DeleteHTTPScaledObject(types.NamespacedName{Namespace: "demo", Name: "app"})
	w.commit()
	eventually(t, "another object holds it", func() bool { return w.heldFor("demo/other") == 1 })
	if used := w.roomUsed(); used <= least {
		t.Errorf("%d bytes are charged, want more than %d", used, least)
	}
	_ = write.Close()
	eventually(t, "the server's buffer is given back", func() bool { return w.roomUsed() <= least })
	w.service("stable", "kubernetes.io/h2c", w.appServer(echo, true).Listener.Addr().String())
	w.commit()
	if got := <-answer; !strings.HasSuffix(got, " hello") {
		t.Errorf("answered %q", got)
	}
}

// otherObject makes HTTPScaledObject demo/other for the host of demo/app, with the
// same Service.
func (w *world) otherObject() {
	port := int32(80)
	other := &httpv1alpha1.HTTPScaledObject{}
	other.Namespace, other.Name, other.UID = "demo", "other", "2"
	other.Spec = httpv1alpha1.HTTPScaledObjectSpec{
		Hosts:          []string{"app.test"},
		ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port},
	}
	w.builder.SetHTTPScaledObject(other)
}

// After a wait, a stream continues where it was.
func TestStreamThatIsHeld(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "grpc")
	w.object("")
	w.commit()
	body, write := io.Pipe()
	r := w.request(http.MethodPost, "/pkg.Service/Method", body)
	client := h2cClient(t)
	answered := make(chan *http.Response, 1)
	go func() {
		defer close(answered)
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		answered <- res
	}()
	_, _ = io.WriteString(write, "while held\n")
	eventually(t, "the line is here", func() bool { return w.roomUsed() > heldRequest+chunkHTTP2 })
	w.service("stable", "grpc", w.appServer(echoLines, true).Listener.Addr().String())
	w.commit()
	res, ok := <-answered
	if !ok {
		return
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, line := range []string{"while held\n", "after that\n", "and on\n"} {
		if line != "while held\n" {
			_, _ = io.WriteString(write, line)
		}
		if got, err := lines.ReadString('\n'); err != nil || got != "2 "+line {
			t.Fatalf("got %q, %v; want the line %q", got, err, line)
		}
	}
	_ = write.Close()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("more: %q, %v, trailer %q", rest, err, res.Trailer)
	}
}

// A body is charged as it arrives. If it does not fit, only its request is turned away:
// the connection and its other requests go on.
func TestBodyThatDoesNotFit(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		t.Run(fmt.Sprint("fallback ", fallback), func(t *testing.T) {
			w := newWorld(t, func(s *Settings) { s.MaxHeldBytes = 2*heldRequest + 100<<10 })
			w.cold("demo/app")
			client := h2cClient(t)
			if fallback {
				client = w.fromEnvoy(w.serveFallback(), "demo/app", true)
			}
			waits := w.ask(client, "demo/app", 0)
			eventually(t, "a request waits", func() bool { return w.heldFor("demo/app") == 1 })
			reused := false
			r := w.request(http.MethodPost, "/", struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 200<<10))})
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}))
			r.Host = "app.demo"
			if got := <-w.inBackground(client, r); !strings.HasPrefix(got, "503 5 ") {
				t.Errorf("answered %q, want 503 with Retry-After", got)
			}
			if w.roomUsed(); w.heldFor("demo/app") != 1 {
				t.Errorf("%d wait still, want 1", w.heldFor("demo/app"))
			}
			if !reused {
				t.Error("the two requests did not share a connection")
			}
			w.warm("demo/app", w.app(named("here")))
			if got := <-waits; !strings.HasSuffix(got, "here") {
				t.Errorf("the other was answered %q", got)
			}
			reused = false
			r = r.Clone(r.Context())
			r.Body, r.ContentLength = http.NoBody, 0
			if got := <-w.inBackground(client, r); !strings.HasSuffix(got, "here") || !reused {
				t.Errorf("the next was answered %q, on the same connection: %v", got, reused)
			}
		})
	}
}

// Of many bodies at once, all bytes that have arrived are charged, and they never
// exceed the waiting room.
func TestManyBodiesNeverFillMoreThanTheRoom(t *testing.T) {
	const few = 255*heldRequest + 1<<20
	for name, most := range map[string]int64{"room for few": few, "room for all": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			const requests, size = 255, 200 << 10
			w := newWorld(t, func(s *Settings) { s.MaxHeldBytes = most })
			w.cold("demo/app")
			body := strings.Repeat("x", size)
			client := h2cClient(t)
			var answers []asked
			for range requests {
				r := w.request(http.MethodPost, "/", struct{ io.Reader }{strings.NewReader(body)})
				r.Host = "app.demo"
				answers = append(answers, w.inBackground(client, r))
			}
			refused := func() int { return int(value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "overflow")) }
			eventually(t, "all wait or are sent away", func() bool { w.roomUsed(); return w.held()+refused() == requests })
			if most > few {
				// The client fills the flow-control window of one connection, or of two
				// at most, with the bodies of a few requests or of all.
				eventually(t, "all that is here is charged", func() bool { return w.roomUsed() > requests*heldRequest+connectionWindow })
				if used := w.roomUsed(); used > requests*(heldRequest+mostReadAhead+chunkHTTP2+1<<10)+2*connectionWindow || refused() > 0 {
					t.Errorf("%d bytes are used, %d were sent away", used, refused())
				}
			} else {
				eventually(t, "some are sent away", func() bool { w.roomUsed(); return refused() > 0 })
			}
			w.warm("demo/app", w.app(func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				_, _ = fmt.Fprint(w, n, err)
			}))
			served := 0
			for _, answer := range answers {
				switch got := <-answer; {
				case strings.HasPrefix(got, "503 5 "):
				case got == fmt.Sprint("200  ", size, " <nil>"):
					served++
				default:
					t.Errorf("answered %q", got)
				}
			}
			if want := requests - refused(); served != want {
				t.Errorf("%d were served, want %d", served, want)
			}
			eventually(t, "nothing is used", func() bool { return w.roomUsed() == 0 })
		})
	}
}

// The part of an HTTP/1.1 body that does not fit into half of the waiting room is not
// read during the wait.
func TestBodyIsReadAheadInHalfOfTheRoom(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeldBytes = 2*heldRequest + 20<<10 })
	w.service("stable", "")
	w.object("")
	w.commit()
	body := strings.Repeat("0123456789abcdef", 3<<10)
	c := dial(t, w.address)
	c.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:20<<10]))
	eventually(t, "a part of the body is read", func() bool { return w.roomUsed() > heldRequest+6<<10 })
	if used := w.roomUsed(); used > heldRequest+10<<10 {
		t.Errorf("%d bytes are used, more than half", used)
	}
	w.service("stable", "", w.app(echo))
	w.commit()
	eventually(t, "the request is on its way", func() bool { return w.held() == 0 })
	c.send(body[20<<10:])
	if res, got := c.answer(http.MethodPost); res.StatusCode != http.StatusOK || got != body {
		t.Errorf("%s, a body of %d bytes; want 200 with %d", res.Status, len(got), len(body))
	}
}

// A request that is turned away for another one goes to the failover, like one that
// does not fit.
func TestTurnedAwayToTheFailover(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.MaxHeld = 1 })
	w.service("stable", "")
	w.service("away", "", w.app(named("please wait")))
	w.object("", failover(3600, "10m"))
	w.cold("other/app")
	r := w.request(http.MethodPost, "/", strings.NewReader("hello"))
	first := w.inBackground(w.client, r)
	eventually(t, "the first waits", func() bool { return w.held() == 1 })
	_ = w.ask(w.client, "other/app", 0)
	// The only place is more than an equal share for either object: the first keeps it.
	eventually(t, "the other is sent away", func() bool {
		return value(t, w.proxy, "interceptor_cold_starts_total", "other", "app", "overflow") == 1
	})
	w.proxy.waiting.mu.Lock()
	w.proxy.waiting.most[inRequests] = 2
	w.proxy.waiting.mu.Unlock()
	second := w.inBackground(w.client, w.request(http.MethodGet, "/", nil))
	eventually(t, "the second waits", func() bool { return w.held() == 2 })
	_ = w.ask(w.client, "other/app", 0)
	if got := <-second; !strings.HasSuffix(got, "please wait") {
		t.Errorf("the second was answered %q", got)
	}
	if got := value(t, w.proxy, "interceptor_cold_starts_total", "demo", "app", "failover"); got != 1 {
		t.Errorf("%v are counted as failover, want 1", got)
	}
	w.service("stable", "", w.app(echo))
	w.commit()
	if got := <-first; !strings.HasSuffix(got, "hello") {
		t.Errorf("the first was answered %q", got)
	}
}
