package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Load is a stream of requests that is under way.
type Load struct {
	options Options
	books   *books
	pace    *pace
	ctx     context.Context // ends when no more requests are to be sent
	stop    context.CancelFunc
	senders sync.WaitGroup
}

// Start begins to send requests, and goes on until Stop.
func Start(o Options) (*Load, error) { return start(o, 0) }

// Send sends count requests and returns the outcome of each, in the order in which
// they were sent. The end of ctx before the last of them is an error.
func Send(ctx context.Context, o Options, count int) ([]Answer, error) {
	if count < 1 {
		return nil, fmt.Errorf("%d requests: want 1 or more", count)
	}
	l, err := start(o, count)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, l.stop)()
	l.senders.Wait()
	answers := l.Stop()
	if len(answers) < count {
		return answers, fmt.Errorf("%d of %d requests were sent: %w", len(answers), count, ctx.Err())
	}
	return answers, nil
}

// start begins to send requests: count in all, or until Stop if count is 0.
func start(o Options, count int) (*Load, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l := &Load{options: o, books: newBooks(count), pace: newPace(o.Rate)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	connections := make([]*connection, o.Connections)
	for i := range connections {
		connections[i] = &connection{options: &l.options, number: i}
	}
	if o.InTurn {
		l.senders.Go(func() { l.send(connections) })
		return l, nil
	}
	for i := range connections {
		l.senders.Go(func() { l.send(connections[i : i+1]) })
	}
	return l, nil
}

// send sends requests, one at a time, on the connections in turn.
func (l *Load) send(connections []*connection) {
	defer func() {
		for _, c := range connections {
			c.close()
		}
	}()
	for i := 0; l.pace.wait(l.ctx); i++ {
		c := connections[i%len(connections)]
		number, more := l.books.begin(c.number)
		if !more {
			return
		}
		l.books.end(number, c.exchange())
	}
}

// Mark sets a boundary: the requests after it are those that are sent from now
// on.
func (l *Load) Mark() Mark { return l.books.mark() }

// Since returns the answers there are so far to the requests after a boundary,
// in the order in which the requests were sent; the zero Mark stands for the
// beginning. Requests under way are not among them.
func (l *Load) Since(m Mark) []Answer {
	answers, _ := l.books.since(m)
	return answers
}

// Await waits until n requests after a boundary are answered, and returns what
// Since does. The end of ctx before that is an error.
func (l *Load) Await(ctx context.Context, m Mark, n int) ([]Answer, error) {
	return l.books.await(ctx, m, n)
}

// Stop sends no more requests, waits for the answers to those under way, each
// for Options.Timeout at most, and returns the answers to all requests. It may be
// called again.
func (l *Load) Stop() []Answer {
	l.stop()
	l.senders.Wait()
	return l.Since(0)
}

// pace spreads requests evenly over time.
type pace struct {
	interval time.Duration
	mu       sync.Mutex
	next     time.Time
}

// newPace returns a pace of rate requests a second; 0 is no limit.
func newPace(rate float64) *pace {
	if rate == 0 {
		return &pace{}
	}
	return &pace{interval: time.Duration(float64(time.Second) / rate)}
}

// wait returns when the next request is due, or false when ctx has ended.
func (p *pace) wait(ctx context.Context) bool {
	if p.interval == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(time.Until(p.due(time.Now())))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// due returns when the next request is due. Requests that were not sent in time are
// left out, as a burst of them would not be steady.
func (p *pace) due(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.next
	if due.Before(now) {
		due = now
	}
	p.next = due.Add(p.interval)
	return due
}
