package proxy

import (
	"net"
	"runtime"
	"sync"
	"testing"
)

func TestLineIsForOneProcessor(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = here.Close() }()
	defer func() { _ = there.Close() }()
	if c := newLine(2).of(here); c != here {
		t.Errorf("with two processors a connection is a %T, expected it as it is", c)
	}
	if c := newLine(1).of(here); c == here {
		t.Error("with one processor there is no line")
	}
}

// Whatever comes when, nobody waits for ever.
func TestLineLosesNobody(t *testing.T) {
	l := newLine(1)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			turn := make(chan struct{}, 1)
			for i := range 2000 {
				l.take(turn)
				if i%7 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	await(t, over, "the last one's turn")
	if n := l.length(); n != 0 || l.led {
		t.Errorf("the line has %d waiting and a leader: %v; expected nobody", n, l.led)
	}
}
