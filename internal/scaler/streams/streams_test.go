package streams

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// patience is how long anything in these tests may take.
const patience = time.Minute

// recorder has what it was given, in order: the ID of a message's first Source, or
// "disconnected".
type recorder struct {
	mu     sync.Mutex
	events map[string][]string // by interceptor
}

func (r *recorder) add(interceptor, event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = make(map[string][]string)
	}
	r.events[interceptor] = append(r.events[interceptor], event)
}

func (r *recorder) Apply(interceptor string, m loadreport.Message) {
	id := ""
	if len(m.Sources) > 0 {
		id = m.Sources[0].ID
	}
	r.add(interceptor, id)
}

func (r *recorder) Disconnected(interceptor string) { r.add(interceptor, "disconnected") }

func (r *recorder) of(interceptor string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[interceptor])
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

// lockedLog is a log that can be read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newStreams(t *testing.T) (*Streams, *recorder, *lockedLog) {
	ctx, cancel := context.WithCancel(context.Background())
	figures, log := &recorder{}, &lockedLog{}
	s := New(ctx, figures, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { cancel(); s.Set(nil) })
	return s, figures, log
}

// interceptor serves one handler after the other, one a connection, and the last one on and
// on.
func interceptor(t *testing.T, handlers ...http.HandlerFunc) (address string) {
	var mu sync.Mutex
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		serve := handlers[min(next, len(handlers)-1)]
		next++
		mu.Unlock()
		if r.URL.Path != loadreport.Path {
			t.Errorf("asked for %s", r.URL)
		}
		serve(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.Listener.Addr().String()
}

func line(id string) string { return fmt.Sprintf(`{"sources":[{"id":%q}]}`+"\n", id) }

// says answers with text and hangs.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		closes(text)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func closes(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// Whatever an interceptor does, its whole messages are taken, and no part of others. The
// stream is opened anew, and the log says why.
func TestAStreamThatFailsIsOpenedAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		want    []string // before the stream that is good
		log     string
	}{
		"closes":            {closes(line("1") + line("2")), []string{"1", "2", "disconnected"}, "EOF"},
		"closes at once":    {closes(""), nil, "EOF"},
		"half a line":       {closes(line("1") + line("2")[:9]), []string{"1", "disconnected"}, "EOF"},
		"is silent":         {says(line("1")), []string{"1", "disconnected"}, "no message for 100ms"},
		"is silent at once": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, "no message for 100ms"},
		"hangs in a line":   {says(line("1") + line("2")[:9]), []string{"1", "disconnected"}, "no message for 100ms"},
		"no JSON":           {says(line("1") + "<html>\n"), []string{"1", "disconnected"}, "message 2 is not of this format"},
		"another type":      {says(`{"sources":"none"}` + "\n"), nil, "message 1 is not of this format"},
		"two in a line":     {says("{}{}\n"), nil, "message 1 is not of this format"},
		"a huge line":       {says(line("1") + `{"sources":[` + strings.Repeat(" ", 300<<10)), []string{"1", "disconnected"}, "more than 200000 bytes"},
		"not found":         {http.NotFound, nil, "404 Not Found"},
		"redirects":         {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, nil, "302 Found"},
		"dies": {func(w http.ResponseWriter, r *http.Request) {
			closes(line("1"))(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, []string{"1", "disconnected"}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, figures, log := newStreams(t)
			s.silence, s.longest = 100*time.Millisecond, 200000
			address := interceptor(t, tt.handler, says(line("good")))
			s.Set([]string{address})
			eventually(t, "another stream", func() bool { return slices.Contains(figures.of(address), "good") })
			if got := figures.of(address); !slices.Equal(got[:len(tt.want)+1], append(tt.want, "good")) {
				t.Errorf("got %q, want %q first", got, tt.want)
			}
			if !strings.Contains(log.String(), tt.log) || !strings.Contains(log.String(), address) {
				t.Errorf("the log lacks %q or the address:\n%s", tt.log, log)
			}
		})
	}
}

// An interceptor that comes has a stream, and one that leaves has none: nothing of it is
// taken any more.
func TestSet(t *testing.T) {
	s, figures, _ := newStreams(t)
	ticks := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			closes(line("tick"))(w, r)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
	}
	stays, leaves := interceptor(t, ticks), interceptor(t, ticks)
	s.Set([]string{stays, leaves, stays})
	eventually(t, "messages of both", func() bool { return len(figures.of(stays)) > 0 && len(figures.of(leaves)) > 0 })
	s.Set([]string{stays})
	left, stayed := figures.of(leaves), len(figures.of(stays))
	if left[len(left)-1] != "disconnected" {
		t.Error("not disconnected after it left")
	}
	eventually(t, "more messages", func() bool { return len(figures.of(stays)) > stayed+20 })
	if got := len(figures.of(leaves)); got != len(left) {
		t.Errorf("%d messages came after it left", got-len(left))
	}
	if slices.Contains(figures.of(stays), "disconnected") {
		t.Error("the stream of the one that stays was broken")
	}
	s.Set([]string{stays, leaves})
	eventually(t, "messages after it came back", func() bool { return len(figures.of(leaves)) > len(left) })
}

// A stream stays as long as messages come.
func TestAStreamThatIsGoodStays(t *testing.T) {
	t.Parallel()
	s, figures, log := newStreams(t)
	s.silence = 2 * time.Second
	ended := make(chan struct{})
	address := interceptor(t, func(w http.ResponseWriter, r *http.Request) {
		for begun := time.Now(); time.Since(begun) < 2*s.silence; time.Sleep(20 * time.Millisecond) {
			closes(line("tick"))(w, r)
			_ = http.NewResponseController(w).Flush()
		}
		close(ended)
		<-r.Context().Done()
	}, says(line("good")))
	s.Set([]string{address})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the stream did not begin")
	}
	if slices.Contains(figures.of(address), "disconnected") {
		t.Errorf("it was broken:\n%s", log)
	}
}

// Streams tell when each interceptor has been tried, also one that cannot be reached.
func TestTried(t *testing.T) {
	s, figures, log := newStreams(t)
	var once sync.Once
	asked := make(chan struct{})
	hangs := interceptor(t, func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-r.Context().Done()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuses := listener.Addr().String()
	_ = listener.Close()
	good := interceptor(t, says(line("1")))
	s.Set([]string{good, refuses})
	eventually(t, "both tried", s.Tried)
	if len(figures.of(good)) == 0 || !strings.Contains(log.String(), refuses) {
		t.Error("one of them was not tried")
	}
	s.Set([]string{good, refuses, hangs})
	<-asked
	if s.Tried() {
		t.Error("one that has not answered is tried")
	}
}

// The log has an interceptor that cannot be reached once, not each try.
func TestTheLogHasAFailureOnce(t *testing.T) {
	s, figures, log := newStreams(t)
	tries := make(chan struct{}, 100)
	fails := func(w http.ResponseWriter, r *http.Request) {
		tries <- struct{}{}
		http.NotFound(w, r)
	}
	address := interceptor(t, fails, fails, fails, closes(line("1")), says(line("good")))
	s.Set([]string{address})
	for range 3 {
		<-tries
	}
	eventually(t, "a stream", func() bool { return slices.Contains(figures.of(address), "good") })
	if n := strings.Count(log.String(), "404"); n != 1 {
		t.Errorf("the log has the failure %d times:\n%s", n, log)
	}
	if !strings.Contains(log.String(), "EOF") {
		t.Errorf("the log lacks the end of the stream:\n%s", log)
	}
}

// Whatever comes over a stream, it is read to its end or its first fault.
func FuzzRead(f *testing.F) {
	f.Add([]byte(line("1") + line("2")))
	f.Add([]byte("{}\n\n"))
	f.Add([]byte(`{"sources":[{"id":"x","objects":[{"requests":1e99}]}]}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		figures := &recorder{}
		s := New(t.Context(), figures, slog.New(slog.DiscardHandler))
		s.longest = 1000
		s.client.Transport = answer(body)
		of := &stream{Streams: s, address: "a"}
		messages, err := of.read(t.Context())
		if err == nil || messages > strings.Count(string(body), "\n") || len(figures.of("a")) != messages {
			t.Errorf("%d messages, %v, %q", messages, err, figures.of("a"))
		}
	})
}

type answer string

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}
