package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hanging is a body that ends with its request alone.
type hanging struct {
	io.Reader
	ctx context.Context
}

func (h hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, context.Cause(h.ctx)
}

func bytesOf(n int) io.Reader { return bytes.NewReader(make([]byte, n)) }

// Many servers that stop in the middle of large answers do not keep others from theirs.
func TestHangingAnswersDoNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		var all sync.WaitGroup
		defer all.Wait()
		ctx, end := context.WithTimeout(t.Context(), 5*time.Minute)
		for range 5 * large {
			all.Go(func() {
				ctx, cut := context.WithCancelCause(ctx)
				_, release, err := p.read(ctx, hanging{bytesOf(maxResponse - 1), ctx}, cut)
				if err == nil || release != nil {
					t.Error("a body that hangs was read")
				}
			})
		}
		synctest.Wait()
		for _, size := range []int{0, small, maxResponse, small} {
			begun := time.Now()
			read, release, err := p.read(ctx, bytesOf(size), nil)
			if err != nil || len(read) != size || (release == nil) != (size <= small) {
				t.Fatalf("%d bytes: got %d, %v", size, len(read), err)
			}
			if took := time.Since(begun); took > 30*time.Second || took > 0 && size <= small {
				t.Errorf("%d bytes took %s", size, took)
			}
			if release != nil {
				release()
				release()
			}
		}
		end()
	})
}

func TestASlowAnswerHasItsTimeWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		body, server := io.Pipe()
		go func() {
			for range 8 {
				_, _ = server.Write(make([]byte, small))
				time.Sleep(20 * time.Second)
			}
			_ = server.Close()
		}()
		ctx, cut := context.WithCancelCause(t.Context())
		defer cut(nil)
		read, release, err := p.read(ctx, body, cut)
		if err != nil || len(read) != 8*small || ctx.Err() != nil {
			t.Fatalf("got %d bytes, %v, %v", len(read), err, context.Cause(ctx))
		}
		release()
	})
}

// Bodies that have been read count until they are released.
func TestLargeBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		var releases []func()
		for range large {
			_, release, err := p.read(t.Context(), bytesOf(small+1), func(error) { t.Error("a body that has arrived was cut off") })
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if _, _, err := p.read(ctx, bytesOf(small+1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the time", err)
		}
		releases[0]()
		if _, _, err := p.read(t.Context(), bytesOf(small+1), nil); err != nil {
			t.Error(err)
		}
	})
}

// An answer whose body does not arrive has a status all the same, and 4xx says that nothing
// was done.
func TestAnswersThatAreCutOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirected" {
			http.Redirect(w, r, "/404/10", http.StatusSeeOther)
			return
		}
		status, length := 0, 0
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &status, &length)
		w.Header().Set("Content-Length", fmt.Sprint(length+1))
		w.WriteHeader(status)
		_, _ = w.Write(make([]byte, length))
	}))
	defer server.Close()
	client := here(t)
	for path, want := range map[string]string{
		"/200/10": "may be done", "/201/100000": "may be done", "/409/10": "not done", "/403/100000": "not done", "/503/10": "may be done",
		"/200/2000000": "refused, may be done", "/404/2000000": "refused, not done",
		"/redirected": "may be done",
	} {
		response, err := client.Do(within(t), Request{Method: "POST", URL: server.URL + path})
		if kind(err) != want || !strings.Contains(err.Error(), "was cut off") {
			t.Errorf("%s: got %s (%v), want %s", path, kind(err), err, want)
		}
		if response == nil || path != "/redirected" && fmt.Sprint(response.Status) != path[1:4] {
			t.Errorf("%s: got %+v", path, response)
		}
		response.Release()
	}
	if n := len(client.places.taken); n != 0 {
		t.Errorf("%d places are not given back", n)
	}
	var none *Response
	none.Release()
}

// All that a Client does with a large answer while others hang.
func TestALargeAnswerBesideServersThatHang(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 4*small))
		if r.URL.Path == "/hang" {
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}
	}))
	defer server.Close()
	defer close(over)
	client := here(t)
	client.places.patience = time.Second
	var all sync.WaitGroup
	defer all.Wait()
	ctx, end := context.WithCancel(within(t))
	defer end()
	for range 2 * large {
		all.Go(func() {
			if _, err := client.Do(ctx, Request{Method: "POST", URL: server.URL + "/hang"}); kind(err) != "may be done" {
				t.Errorf("got %s: %v", kind(err), err)
			}
		})
	}
	for range 5 {
		response, err := client.Do(within(t), Request{Method: "GET", URL: server.URL})
		if err != nil || len(response.Body) != 4*small {
			t.Fatalf("beside servers that hang: %v", err)
		}
		response.Release()
	}
}
