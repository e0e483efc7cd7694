package loads

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// Messages come a second apart. The first held request is told of at once, and so are the
// last changes when the stream ends.
func TestWhenMessagesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(always)
		begun := time.Now() // by the clock of the test, which moves when all wait
		w := &messages{sent: make(chan loadreport.Message)}
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		}()
		next := func(at time.Duration, held int64) {
			t.Helper()
			m := <-w.sent
			now := time.Since(begun)
			var got int64
			for _, o := range m.Sources[0].Objects {
				got = o.Held
			}
			if now != at || got != held {
				t.Errorf("after %v: told of %d held, want %d after %v", now, got, held, at)
			}
		}
		c := l.Own().Counters(app)
		next(0, 0)
		c.Count(1)
		next(time.Second, 0)
		time.Sleep(300 * time.Millisecond)
		c.Hold()
		next(1300*time.Millisecond, 1)
		time.Sleep(300 * time.Millisecond)
		c.Hold() // scalers know already that the application is to wake up
		next(2*time.Second, 2)
		time.Sleep(300 * time.Millisecond)
		c.Release()
		c.Release()
		c.Hold()
		next(2300*time.Millisecond, 1)
		time.Sleep(300 * time.Millisecond)
		c.Hold()
		closed := make(chan struct{})
		go func() { defer close(closed); l.Close(t.Context()) }()
		next(2600*time.Millisecond, 2)
		<-over
		<-closed
		late := httptest.NewRecorder()
		l.ServeHTTP(late, httptest.NewRequest(http.MethodGet, "/", nil))
		if late.Code != http.StatusServiceUnavailable {
			t.Errorf("a scaler that comes after the end is answered %d", late.Code)
		}
	})
}

// messages is an http.ResponseWriter of a stream.
type messages struct {
	httptest.ResponseRecorder
	line bytes.Buffer
	sent chan loadreport.Message
}

func (m *messages) Header() http.Header { return http.Header{} }

func (m *messages) Write(data []byte) (int, error) { return m.line.Write(data) }

func (m *messages) SetWriteDeadline(time.Time) error { return nil }

func (m *messages) FlushError() error {
	var message loadreport.Message
	if err := json.NewDecoder(&m.line).Decode(&message); err != nil {
		return err
	}
	m.line.Reset()
	m.sent <- message
	return nil
}
