package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// endless is a body that does not end, and counts how often it was read.
type endless struct{ reads *atomic.Int64 }

func (e endless) Read(into []byte) (int, error) {
	e.reads.Add(1)
	return len(into), nil
}

// Uploads that an application does not read do not stop other uploads on the same
// HTTP/2 connection.
func TestUploadsThatAreNotReadStopNoOther(t *testing.T) {
	const unread = 20
	w := newWorld(t)
	var arrived atomic.Int32
	over := make(chan struct{})
	w.service("stable", "", w.app(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			arrived.Add(1)
			<-over
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(func() { close(over) })
	w.object("")
	w.commit()
	w.client = h2cClient(t)
	var reads atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	for range unread {
		w.inBackground(&http.Client{Transport: w.client.Transport}, w.request(http.MethodPost, "/unread", endless{&reads}).WithContext(ctx))
	}
	eventually(t, "the uploads are at the application", func() bool { return arrived.Load() == unread })
	// Buffers of the kernel are between, too. They are full when nothing more is read.
	eventually(t, "the uploads stand still", func() bool {
		before := reads.Load()
		time.Sleep(200 * time.Millisecond)
		return reads.Load() == before
	})
	body := strings.Repeat("x", 1<<20)
	if res, got := w.do(w.request(http.MethodPost, "/", strings.NewReader(body))); got != body {
		t.Errorf("%s with %d bytes, want %d", res.Status, len(got), len(body))
	}
	cancel()
}

// Answers that clients do not read do not stop other answers on the same HTTP/2
// connection of the application.
func TestAnswersThatAreNotReadStopNoOther(t *testing.T) {
	const unread = 40
	w := newWorld(t)
	var sent atomic.Int64
	whole := strings.Repeat("x", 1<<20)
	app := w.appServer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/unread" {
			_, _ = io.WriteString(w, whole)
			return
		}
		for {
			n, err := io.WriteString(w, whole[:16<<10])
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}, true)
	w.service("stable", "kubernetes.io/h2c", app.Listener.Addr().String())
	w.object("")
	w.commit()
	forEver := &http.Client{Transport: w.client.Transport}
	for range unread {
		res, err := forEver.Do(w.request(http.MethodGet, "/unread", nil).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	eventually(t, "the answers stand still", func() bool {
		before := sent.Load()
		time.Sleep(200 * time.Millisecond)
		return sent.Load() == before
	})
	if res, got := w.get("/"); got != whole {
		t.Errorf("%s with %d bytes, want %d", res.Status, len(got), len(whole))
	}
}
