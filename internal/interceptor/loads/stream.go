package loads

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

const (
	// writeTime is how long a reader may take to accept a message.
	writeTime = 10 * time.Second
	// shortestPause is between two messages: clients that come and go while an application
	// has no pods could otherwise cause any number of them.
	shortestPause = 50 * time.Millisecond
)

// reader is a scaler that gets the stream. What it has not been told is known by told
// alone, so that a slow reader takes no memory.
type reader struct {
	told  uint64        // the generation of its last message; 0 for none
	woken chan struct{} // has room for one
}

// Close tells all readers what they have not been told, and ends their streams. It waits
// for that until ctx ends. It is to be called once.
func (l *Ledger) Close(ctx context.Context) {
	l.mu.Lock()
	close(l.closed)
	l.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.streams.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// ServeHTTP is part of http.Handler. It streams loadreport.Messages until the client leaves
// or reads no more.
func (l *Ledger) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r := l.beginReader()
	if r == nil {
		http.Error(w, "the interceptor ends", http.StatusServiceUnavailable)
		return
	}
	defer l.endReader(r)
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	interval := time.NewTicker(loadreport.Interval)
	defer interval.Stop()
	for last := false; ; {
		if control.SetWriteDeadline(time.Now().Add(writeTime)) != nil || write(w, l.changesFor(r)) != nil || control.Flush() != nil {
			return
		}
		if last {
			return
		}
		time.Sleep(shortestPause)
		select {
		case <-request.Context().Done():
			return
		case <-l.closed:
			last = true
		case <-interval.C:
		case <-r.woken:
		}
	}
}

// beginReader adds a reader; it returns nil after Close.
func (l *Ledger) beginReader() *reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil
	default:
	}
	r := &reader{woken: make(chan struct{}, 1)}
	l.readers[r] = struct{}{}
	l.streams.Add(1)
	return r
}

func (l *Ledger) endReader(r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
	l.forgetLocked()
	l.streams.Done()
}

// changesFor returns what a reader has not been told.
func (l *Ledger) changesFor(r *reader) []changes {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweepLocked()
	l.generation++
	var all []changes
	for _, s := range l.sources {
		if c, ok := s.changesLocked(r.told); ok {
			all = append(all, c)
		}
	}
	r.told = l.generation
	l.forgetLocked()
	return all
}

// write writes a loadreport.Message as a line. It encodes one object at a time: a line that
// a reader takes slowly has thousands of them, and is not to be in memory.
func write(w io.Writer, all []changes) error {
	out := &lineWriter{w: w}
	out.text(`{"sources":[`)
	for i, c := range all {
		if i > 0 {
			out.text(",")
		}
		out.openSource(c.source)
		before := `,"objects":[`
		for _, name := range c.gone {
			out.text(before)
			out.json(loadreport.Object{Namespace: name.Namespace, Name: name.Name, Gone: true})
			before = ","
		}
		for _, counters := range c.objects {
			out.text(before)
			out.json(counters.report())
			before = ","
		}
		if before == "," {
			out.text("]")
		}
		out.text("}")
	}
	out.text("]}\n")
	return out.err
}

// lineWriter writes until there is an error.
type lineWriter struct {
	w   io.Writer
	err error
}

func (l *lineWriter) bytes(data []byte) {
	if l.err == nil {
		_, l.err = l.w.Write(data)
	}
}

func (l *lineWriter) text(text string) { l.bytes([]byte(text)) }

func (l *lineWriter) json(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		l.err = err
	}
	l.bytes(data)
}

// openSource writes a Source without its closing brace.
func (l *lineWriter) openSource(s loadreport.Source) {
	data, err := json.Marshal(s)
	if err != nil {
		l.err = err
		return
	}
	l.bytes(data[:len(data)-1])
}
