package forward

import (
	"fmt"
	"io"
	"sync"
)

// faults reports why connections fail: the first failure, and then only one that
// differs from the last or follows a success.
type faults struct {
	out io.Writer

	mu   sync.Mutex
	last string
}

// report takes the result of beginning a connection; nil is a success.
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
