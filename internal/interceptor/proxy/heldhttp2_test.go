package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
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

// After a wait the application gets the same HTTP/2 body, also if another object takes
// the request over.
func TestBodiesOfHeldRequestsInHTTP2(t *testing.T) {
	for _, size := range []int{0, 5, streamWindow, streamWindow + 1, 1 << 20} {
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
	eventually(t, "the line is here", func() bool { return w.roomUsed() > heldRequest })
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
