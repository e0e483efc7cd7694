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
)

// supervise returns a supervisor of one shell script, named "script".
func supervise(t *testing.T, script string, ready func(context.Context) error) (*supervisor, Layout) {
	t.Helper()
	l := Layout{Dir: t.TempDir()}
	if err := os.MkdirAll(l.Logs(), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(l, slog.New(slog.NewTextHandler(io.Discard, nil)), []component{{
		name: "script", path: "/bin/sh", args: []string{"-c", script}, grace: time.Minute, ready: ready,
	}})
	t.Cleanup(func() {
		if err := s.stop("script", true); err != nil {
			t.Error(err)
		}
	})
	return s, l
}

func quiet(string, ...any) {}

// fileThere returns a readiness check that passes once the component has made the
// file in its directory.
func fileThere(l *Layout, name string) func(context.Context) error {
	return func(context.Context) error {
		_, err := os.Stat(filepath.Join(l.work("script"), name))
		return err
	}
}

func TestComponentIsStartedAndStopped(t *testing.T) {
	var l Layout
	s, layout := supervise(t, `trap 'echo bye; exit 0' TERM; touch up; while :; do sleep 0.02; done`, fileThere(&l, "up"))
	l = layout
	c := s.components["script"]
	if got := c.status().State; got != StateStopped {
		t.Errorf("before start: %s", got)
	}
	for range 2 { // the second start finds it running
		if err := s.start("script"); err != nil {
			t.Fatal(err)
		}
		if err := s.await(t.Context(), "script", time.Minute, quiet); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.status(); got.State != StateRunning || got.PID == 0 {
		t.Errorf("running: %+v", got)
	}
	for range 2 { // the second stop finds it stopped
		if err := s.stop("script", false); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.status(); got.State != StateStopped || got.PID != 0 || got.Deaths != 0 {
		t.Errorf("stopped: %+v", got)
	}
	if log, err := os.ReadFile(l.Log("script")); err != nil || string(log) != "bye\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	if err := s.start("script"); err != nil {
		t.Errorf("started again: %v", err)
	}
}

func TestComponentThatDoesNotEndIsKilled(t *testing.T) {
	var l Layout
	s, layout := supervise(t, `trap '' TERM; touch up; while :; do sleep 0.02; done`, fileThere(&l, "up"))
	l = layout
	s.components["script"].grace = 300 * time.Millisecond
	if err := s.start("script"); err != nil {
		t.Fatal(err)
	}
	if err := s.await(t.Context(), "script", time.Minute, quiet); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := s.stop("script", false); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < s.components["script"].grace {
		t.Errorf("it was killed after %v, before its time was over", took)
	}
	if got := s.components["script"].status(); got.State != StateStopped {
		t.Errorf("%+v", got)
	}
}

func TestComponentThatDiesIsReportedAndRestarted(t *testing.T) {
	// It dies once, and the second time it runs.
	var l Layout
	s, layout := supervise(t, `if [ -e died ]; then touch again; sleep 600; fi; touch died; echo out of luck; exit 3`, fileThere(&l, "again"))
	l = layout
	if err := s.start("script"); err != nil {
		t.Fatal(err)
	}
	err := s.await(t.Context(), "script", time.Minute, quiet)
	if err == nil {
		t.Fatal("a component that dies while starting is ready")
	}
	for _, part := range []string{"script", "exit status 3", "out of luck"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	if err := s.await(t.Context(), "script", time.Minute, quiet); err != nil {
		t.Fatalf("the second time: %v", err)
	}
	got := s.components["script"].status()
	if got.State != StateRunning || got.Deaths != 1 || !strings.Contains(got.LastDeath, "exit status 3") || !strings.Contains(got.LastLog, "out of luck") {
		t.Errorf("status: %+v", got)
	}
}

func TestWaitingForAComponentEnds(t *testing.T) {
	s, layout := supervise(t, `echo still thinking; touch thinks; sleep 600`, func(context.Context) error { return errors.New("not listening") })
	if err := s.start("script"); err != nil {
		t.Fatal(err)
	}
	thinks := fileThere(&layout, "thinks")
	for deadline := time.Now().Add(time.Minute); thinks(t.Context()) != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the component does not run after a minute")
		}
	}
	var said []string
	err := s.await(t.Context(), "script", 300*time.Millisecond, func(format string, _ ...any) { said = append(said, format) })
	if err == nil {
		t.Fatal("a component that is not ready is ready")
	}
	for _, part := range []string{"waiting for script", "not listening", "not ready after", "still thinking"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	if len(said) == 0 {
		t.Error("nothing was said while waiting")
	}
}

func TestUnknownComponent(t *testing.T) {
	s, _ := supervise(t, `sleep 600`, nil)
	for name, err := range map[string]error{
		"start": s.start("kubelet"),
		"stop":  s.stop("kubelet", false),
		"await": s.await(t.Context(), "kubelet", time.Second, quiet),
	} {
		if err == nil || !strings.Contains(err.Error(), APIServer) {
			t.Errorf("%s: %v, want the components named", name, err)
		}
	}
}
