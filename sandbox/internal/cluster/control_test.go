package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A client follows a start that is under way, from its beginning, even if the path of
// the socket does not fit into a socket address.
func TestControl(t *testing.T) {
	for name, dir := range map[string]string{"short": "s", "long": strings.Repeat("long/", 40)} {
		t.Run(name, func(t *testing.T) {
			l := Layout{Dir: filepath.Join(t.TempDir(), dir)}
			if err := os.MkdirAll(l.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c := control{l}
			if err := c.follow(t.Context(), func(Event) {}); !errors.Is(err, errNotRunning) {
				t.Errorf("without a daemon: %v", err)
			}

			listener, err := listenControl(l)
			if err != nil {
				t.Fatal(err)
			}
			d := &daemon{layout: l, events: newEvents()}
			d.supervisor = newSupervisor(l, slog.New(slog.NewTextHandler(io.Discard, nil)), nil)
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- serve(ctx, listener, d.handler()) }()

			d.events.say("first")
			var got []Event
			err = c.follow(t.Context(), func(event Event) {
				got = append(got, event)
				if event.Said == "first" { // the other events come while the client follows
					d.events.status("second %d", 2)
					d.events.add(Event{Ready: true})
				}
			})
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]Event{{Said: "first"}, {Status: "second 2"}, {Ready: true}}, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if err := c.component(t.Context(), "stop", "kubelet", true); err == nil || !strings.Contains(err.Error(), `no component "kubelet"`) {
				t.Errorf("an error of the daemon's arrives as %v", err)
			}
			cancel()
			if err := <-served; err != nil {
				t.Errorf("served: %v", err)
			}
		})
	}
}

func TestFollowReportsFailure(t *testing.T) {
	l := Layout{Dir: t.TempDir()}
	listener, err := listenControl(l)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{layout: l, events: newEvents()}
	go func() { _ = serve(t.Context(), listener, d.handler()) }()
	d.events.add(Event{Error: "etcd has no space"})
	if err := (control{l}).follow(t.Context(), func(Event) {}); err == nil || err.Error() != "etcd has no space" {
		t.Errorf("%v", err)
	}
}

func TestEvents(t *testing.T) {
	e := newEvents()
	e.status("waiting, 1s")
	e.status("waiting, 1s") // a repeated status is no event
	e.say("done")
	if _, over := e.outcome(); over {
		t.Error("over before its end")
	}
	e.add(Event{Error: "broken"})
	e.say("after the end")
	var got []Event
	for event := range e.all(t.Context()) {
		got = append(got, event)
	}
	if diff := cmp.Diff([]Event{{Status: "waiting, 1s"}, {Said: "done"}, {Error: "broken"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last, over := e.outcome(); !over || last.Error != "broken" {
		t.Errorf("outcome: %+v, %v", last, over)
	}

	// A reader stops waiting for events when its context ends.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for event := range newEvents().all(ctx) {
		t.Errorf("unexpected %+v", event)
	}
}

func TestPoll(t *testing.T) {
	calls := 0
	if err := poll(t.Context(), time.Millisecond, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("out of patience"))
	defer cancel()
	cold := errors.New("cold")
	err := poll(ctx, time.Millisecond, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return cold
	})
	if !errors.Is(err, cold) || !strings.Contains(err.Error(), "out of patience") {
		t.Errorf("%v; want the last error, and why it ended", err)
	}
}

// If the daemon ends before it answers, the error says that the sandbox is not
// running.
func TestDaemonEndsBeforeItAnswers(t *testing.T) {
	for name, read := range map[string]int{"it has read the request": 64 << 10, "it has not": 1} {
		t.Run(name, func(t *testing.T) {
			l := Layout{Dir: t.TempDir()}
			listener, err := listenControl(l)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			go func() {
				if conn, err := listener.Accept(); err == nil {
					_, _ = conn.Read(make([]byte, read))
					_ = conn.Close()
				}
			}()
			if _, err := (control{l}).status(t.Context()); !errors.Is(err, errNotRunning) {
				t.Errorf("%v, want one that says that the sandbox is not running", err)
			}
		})
	}
}
