package forward

import (
	"fmt"
	"io"
	"sync"
)

// faults tells a person why connections fail: the first failure, and then only
// what changes.
type faults struct {
	out io.Writer

	mu   sync.Mutex
	last string
}

// report takes how a connection began; nil is a success.
func (f *faults) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if text != "" && text != f.last {
		_, _ = fmt.Fprintln(f.out, "a connection failed:", text)
	}
	f.last = text
}
