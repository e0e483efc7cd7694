package e2e

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// TestAnotherToolAnnotates has another tool change its own annotations of the
// HTTPScaledObject throughout a canary: neither the tool nor the plugin overwrites a
// change of the other.
func TestAnotherToolAnnotates(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Steps: `
- setWeight: 20
- pause: {duration: 2s}
- setWeight: 60
- pause: {duration: 2s}
`}
	record := start(n, app)
	stop := annotateAllAlong(n, t)

	n.SetImage("app", e2etest.Image("yellow"))
	n.AwaitHealthy("app", e2etest.Image("yellow"))
	n.AwaitSplit("app", e2etest.NoSplit)
	written := stop()

	want := []e2etest.Split{e2etest.NoSplit, app.Split(20), app.Split(60), app.Split(100), e2etest.NoSplit}
	record.RequireSplits(want...)
	for key, want := range written {
		if got := n.HTTPScaledObject("app").GetAnnotations()[key]; got != want {
			t.Errorf("annotation %s is %q, but the other tool wrote %q last", key, got, want)
		}
	}
	last := 0
	for _, value := range record.Annotation(counter) {
		now, err := strconv.Atoi(value)
		if value == e2etest.Absent {
			now, err = 0, nil
		}
		if err != nil || now < last {
			t.Fatalf("annotation %s went from %d to %q: a write of the other tool was lost", counter, last, value)
		}
		last = now
	}
	if last < 20 {
		t.Errorf("the other tool wrote only %d times", last)
	}
}

const (
	counter = "another-tool.example.com/counter"
	flicker = "another-tool.example.com/flicker"
)

// annotateAllAlong writes two annotations about every 20 ms, one that counts and one
// that comes and goes, until the returned function is called. That function returns the
// values written last.
func annotateAllAlong(n *e2etest.Namespace, t *testing.T) (stop func() map[string]string) {
	ctx, cancel := context.WithCancel(t.Context())
	type outcome struct {
		written map[string]string
		err     error
	}
	ended := make(chan outcome, 1)
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		written := make(map[string]string)
		for i := 1; ; i++ {
			value, present := strconv.Itoa(i), "yes"
			patch := map[string]*string{counter: &value, flicker: nil}
			if i%2 == 0 {
				patch[flicker] = &present
			}
			// stop does not cancel a write, so that the last value written is known.
			if err := n.TryAnnotate(context.WithoutCancel(ctx), "app", patch); err != nil {
				ended <- outcome{written, err}
				return
			}
			written[counter], written[flicker] = value, ""
			if patch[flicker] != nil {
				written[flicker] = present
			}
			select {
			case <-ctx.Done():
				ended <- outcome{written, nil}
				return
			case <-ticker.C:
			}
		}
	}()
	return func() map[string]string {
		t.Helper()
		cancel()
		o := <-ended
		if o.err != nil {
			t.Fatalf("the other tool: %v", o.err)
		}
		return o.written
	}
}
