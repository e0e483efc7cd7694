package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Answer is the outcome of one request.
type Answer struct {
	// Number counts the requests in the order in which they were sent, from 0.
	Number int
	// Connection is the number of the connection it was sent on, from 0 to one
	// less than Options.Connections.
	Connection int
	// Sent is when the request began, before a new connection was made; Received is
	// when the whole answer had arrived, or the request had failed.
	Sent, Received time.Time
	// Status is 0 without an answer.
	Status int
	// Backend is the backend that has answered, "" unless Status is 200.
	Backend string
	// FailedBackend is the backend that has answered with a status other than 200;
	// "" without such an answer, and if the answer names no backend, such as a
	// proxy's own.
	FailedBackend string
	// Pod is the answer's X-Pod, which the sandbox's rollouts-demo sets.
	Pod string
	// Problem says what went wrong; empty if nothing did.
	Problem string
}

// Failed says whether anything went wrong; a status other than 200 is wrong.
func (a Answer) Failed() bool { return a.Problem != "" }

// Latency is how long the request took.
func (a Answer) Latency() time.Duration { return a.Received.Sub(a.Sent) }

// String says what became of the request, on one line.
func (a Answer) String() string {
	text := fmt.Sprintf("request %d, sent %s on connection %d, after %s: ",
		a.Number, a.Sent.UTC().Format("15:04:05.000"), a.Connection, a.Latency().Round(time.Microsecond))
	if a.Failed() {
		return text + a.Problem
	}
	return text + a.Backend
}

// Mark is a boundary in the stream of requests: requests before it were sent before
// it was set.
type Mark int

// books has an entry for each request that was sent.
type books struct {
	most    int // the limit of entries; 0 is no limit
	mu      sync.Mutex
	entries []Answer
	open    int           // requests under way
	changed chan struct{} // closed and replaced at each answer
}

func newBooks(most int) *books { return &books{most: most, changed: make(chan struct{})} }

// begin makes an entry for a request that is about to be sent; more is false if the
// limit is reached.
func (b *books) begin(connection int) (number int, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	number = len(b.entries)
	if b.most > 0 && number == b.most {
		return 0, false
	}
	b.entries = append(b.entries, Answer{Number: number, Connection: connection, Sent: time.Now()})
	b.open++
	return number, true
}

// end completes the entry of a request with what is known of its answer.
func (b *books) end(number int, answer Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	begun := b.entries[number]
	answer.Number, answer.Connection, answer.Sent = number, begun.Connection, begun.Sent
	answer.Received = time.Now()
	b.entries[number] = answer
	b.open--
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *books) mark() Mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Mark(len(b.entries))
}

// since returns the answers to the requests from a mark on, in the order in which
// the requests were sent, and a channel that is closed at the next answer.
func (b *books) since(m Mark) ([]Answer, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	answers := make([]Answer, 0, len(b.entries)-int(m))
	for _, entry := range b.entries[m:] {
		if !entry.Received.IsZero() {
			answers = append(answers, entry)
		}
	}
	return answers, b.changed
}

// await waits until there are n answers to requests from a mark on.
func (b *books) await(ctx context.Context, m Mark, n int) ([]Answer, error) {
	for {
		answers, changed := b.since(m)
		if len(answers) >= n {
			return answers, nil
		}
		select {
		case <-ctx.Done():
			return answers, fmt.Errorf("%d of %d requests are answered: %w", len(answers), n, ctx.Err())
		case <-changed:
		}
	}
}
