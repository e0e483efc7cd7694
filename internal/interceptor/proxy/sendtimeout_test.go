package proxy

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// If an HTTP/2 client reads its connection but takes nothing of an answer, that answer
// is given up, and the application is rid of the request. Other answers on the same
// connection are not touched.
func TestAnAnswerThatAClientOfHTTP2TakesNothingOfIsGivenUp(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.SendTimeout = time.Second })
	ended := make(chan error, 1)
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			return
		}
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				ended <- err
				return
			}
		}
	}))
	w.object("")
	w.commit()
	w.client = h2cClient(t)
	w.client.Timeout = 0 // or the client gives up first

	res, err := w.client.Do(w.request(http.MethodGet, "/", nil).WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("the application writes still, after %v", patience)
	}
	eventually(t, "no request is in flight", func() bool {
		return value(t, w.proxy, "interceptor_requests_in_flight", "demo", "app", "stable") == 0
	})
	if res, _ := w.get("/small"); res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
		t.Errorf("another request of the same client is answered %s %s", res.Proto, res.Status)
	}
}

// The timeout starts again whenever the client takes a part of the answer.
func TestAClientOfHTTP2ThatReadsSlowlyIsServed(t *testing.T) {
	const length = 64 << 20 // several times the flow-control window of a stream
	w := newWorld(t, func(s *Settings) { s.SendTimeout = 2 * time.Second })
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 64<<10)
		for range length / len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	w.object("")
	w.commit()
	w.client = h2cClient(t)

	res, err := w.client.Do(w.request(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buffer, got, begun := make([]byte, 256<<10), 0, time.Now()
	for {
		n, err := res.Body.Read(buffer)
		got += n
		if err != nil {
			break
		}
		// In all, the answer takes far longer than the timeout.
		if time.Since(begun) < 5*time.Second {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if got != length {
		t.Errorf("%d bytes of %d came", got, length)
	}
}

// A stream that is quiet for longer than the timeout goes on, as no data waits for its
// client: watches, server-sent events and gRPC may be quiet for any time.
func TestAQuietStreamOfHTTP2GoesOn(t *testing.T) {
	const timeout = 1500 * time.Millisecond
	w := newWorld(t, func(s *Settings) { s.SendTimeout = timeout })
	words := make(chan string, 1)
	end := sync.OnceFunc(func() { close(words) })
	w.service("stable", "", w.app(func(w http.ResponseWriter, _ *http.Request) {
		for word := range words {
			_, _ = io.WriteString(w, word)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(end)
	w.object("")
	w.commit()
	w.client = h2cClient(t)
	words <- "one"
	res, err := w.client.Do(w.request(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	hear := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	hear("one")
	for _, word := range []string{"two", "three"} {
		time.Sleep(2 * timeout) // the quiet
		words <- word
		hear(word)
	}
	end()
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("ended with %q, %v", rest, err)
	}
}

// The timeout also applies to the end of an answer, which the server writes after the
// handler: a client whose flow-control window is full does not keep the interceptor
// from shutting down.
func TestARefusalThatAClientOfHTTP2TakesNothingOfIsGivenUp(t *testing.T) {
	w := newWorld(t, func(s *Settings) { s.SendTimeout = time.Second })
	w.commit()
	w.client = h2cClient(t)
	w.client.Timeout = 0
	w.client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1}
	res, err := w.client.Do(w.request(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.server.Shutdown(ctx); err != nil {
		t.Errorf("answered %s: %v", res.Status, err)
	}
}
