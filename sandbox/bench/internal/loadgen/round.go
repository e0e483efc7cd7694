package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// Round is one measurement: connections that each send a request when the one
// before is answered.
type Round struct {
	Target      netip.AddrPort
	Host, Path  string
	Connections int
	// Warm is how long requests are sent before the measurement, and Measure how long
	// the measurement lasts.
	Warm, Measure time.Duration
	// Processes are the ids of the proxy's processes, whose processor time is
	// measured.
	Processes []int
}

// Result is what was measured.
type Result struct {
	// Error says why there is no result; the other fields are empty then.
	Error string `json:",omitempty"`
	// Requests were answered within Elapsed.
	Requests int
	Elapsed  time.Duration
	// P50 and P99 are of the time from sending a request to having the whole
	// answer.
	P50, P99 time.Duration
	// Answers counts the requests by the body they were answered with.
	Answers map[string]int
	// CPU is the processor time that the proxy took, and OwnCPU that of the
	// clients and applications.
	CPU, OwnCPU time.Duration
}

// Rate returns the requests a second.
func (r *Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// CPUPerRequest returns the processor time that a request took the proxy.
func (r *Result) CPUPerRequest() time.Duration {
	if r.Requests == 0 {
		return 0
	}
	return r.CPU / time.Duration(r.Requests)
}

// answerTimeout is how long an answer may take at the end of a round.
const answerTimeout = 5 * time.Second

// running is a round under way.
type running struct {
	request  []byte
	begun    time.Time
	measured bool // the answers count now
	over     bool // no more requests
	open     int  // requests that are not answered
	took     []int64
	answers  map[[2]byte]int
	bodies   map[[2]byte]string
}

func (l *loop) run(r Round) (result *Result, err error) {
	round := &running{
		request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", r.Path, r.Host),
		begun:   time.Now(),
		took:    make([]int64, 0, 1<<20),
		answers: make(map[[2]byte]int),
		bodies:  make(map[[2]byte]string),
	}
	l.round = round
	defer l.endRound()
	for range r.Connections {
		c, err := connect(r.Target)
		if err != nil {
			return nil, fmt.Errorf("connecting to %s: %w", r.Target, err)
		}
		if err := l.add(c); err != nil {
			return nil, err
		}
		if err := round.send(c); err != nil {
			return nil, err
		}
		round.open++
	}
	if err := l.until(r.Warm); err != nil {
		return nil, err
	}
	cpu, own, err := processorTimes(r.Processes)
	if err != nil {
		return nil, err
	}
	began := time.Since(round.begun)
	round.measured = true
	if err := l.until(began + r.Measure); err != nil {
		return nil, err
	}
	round.measured = false
	result = &Result{Requests: len(round.took), Elapsed: time.Since(round.begun) - began, Answers: make(map[string]int)}
	cpuAfter, ownAfter, err := processorTimes(r.Processes)
	if err != nil {
		return nil, err
	}
	result.CPU, result.OwnCPU = cpuAfter-cpu, ownAfter-own
	if result.Requests == 0 {
		return nil, fmt.Errorf("%s answered nothing in %v", r.Target, r.Measure)
	}
	slices.Sort(round.took)
	result.P50 = time.Duration(gauge.Quantile(round.took, 0.5))
	result.P99 = time.Duration(gauge.Quantile(round.took, 0.99))
	for key, count := range round.answers {
		result.Answers[round.bodies[key]] = count
	}
	round.over = true
	for deadline := time.Now().Add(answerTimeout); round.open > 0; {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s left %d requests unanswered for %v", r.Target, round.open, answerTimeout)
		}
		if _, err := l.turn(100); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// until handles events until end after the beginning of the round.
func (l *loop) until(end time.Duration) error {
	for {
		left := end - time.Since(l.round.begun)
		if left <= 0 {
			return nil
		}
		if _, err := l.turn(int(left/time.Millisecond) + 1); err != nil {
			return err
		}
	}
}

// endRound closes what the clients had open.
func (l *loop) endRound() {
	for _, c := range l.connections {
		if c != nil && c.kind == client {
			l.drop(c)
		}
	}
	l.round = nil
}

func connect(target netip.AddrPort) (*connection, error) {
	fd, err := unix.Socket(family(target), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, socketAddress(target))
	if err == nil {
		err = errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &connection{fd: fd, kind: client}, nil
}

func (r *running) send(c *connection) error {
	c.sent = int64(time.Since(r.begun))
	n, err := unix.Write(c.fd, r.request)
	if err == nil && n != len(r.request) {
		err = errors.New("the kernel took a part of it")
	}
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	return nil
}

// answered reads an answer, and sends the next request when it is whole.
func (r *running) answered(c *connection) error {
	n, err := unix.Read(c.fd, c.buffer[c.fill:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("the proxy closed a connection, with %q unread", c.buffer[:c.fill])
	}
	c.fill += n
	body, whole, err := parseAnswer(c.buffer[:c.fill])
	if err != nil || !whole {
		return err
	}
	if r.measured {
		r.took = append(r.took, int64(time.Since(r.begun))-c.sent)
		var key [2]byte
		copy(key[:], body)
		r.answers[key]++
		if r.answers[key] == 1 {
			r.bodies[key] = string(body)
		}
	}
	c.fill = 0
	if r.over {
		r.open--
		return nil
	}
	return r.send(c)
}

var (
	okLine        = []byte("HTTP/1.1 200 ")
	contentLength = []byte("content-length:")
)

// parseAnswer returns the body of an answer, once all of the answer is there.
func parseAnswer(data []byte) (body []byte, whole bool, err error) {
	head, body, found := bytes.Cut(data, headEnd)
	if !found {
		return nil, false, nil
	}
	if !bytes.HasPrefix(head, okLine) {
		return nil, false, fmt.Errorf("the proxy answered %q", data)
	}
	for lines := head; len(lines) > 0; {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
		if len(line) < len(contentLength) || !bytes.EqualFold(line[:len(contentLength)], contentLength) {
			continue
		}
		length, err := strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):])))
		if err != nil || len(body) > length {
			return nil, false, fmt.Errorf("the proxy answered %q", data)
		}
		return body, len(body) == length, nil
	}
	return nil, false, fmt.Errorf("an answer without Content-Length: %q", data)
}

// processorTimes returns what the processes and this one have taken so far.
func processorTimes(processes []int) (theirs, own time.Duration, err error) {
	for _, pid := range processes {
		took, err := gauge.CPU(pid)
		if err != nil {
			return 0, 0, err
		}
		theirs += took
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, 0, err
	}
	return theirs, time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
