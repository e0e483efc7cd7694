package rolloutsplugin

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

func TestOnChangeOfParent(t *testing.T) {
	var parent atomic.Int32
	parent.Store(1) // the controller is process 1 of its container
	gone := make(chan struct{})
	go onChange(t.Context(), 1, func() int { return int(parent.Load()) }, time.Millisecond, func() { close(gone) })
	parent.Store(7) // a subreaper
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the change of parent was not seen")
	}
}

func TestOnChangeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		onChange(ctx, 1, func() int { return 1 }, time.Millisecond, func() { t.Error("no parent died") })
		close(ended)
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("still polling after its context ended")
	}
}
