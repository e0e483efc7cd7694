package build

import (
	"fmt"
	"sync"
)

// count follows `go build -v`, which names each package it compiles and none
// that it takes from Go's build cache.
type count struct {
	mu       sync.Mutex
	known    map[string]bool
	compiled map[string]bool
	last     string
}

func newCount(known map[string]bool) *count {
	return &count{known: known, compiled: make(map[string]bool)}
}

// add takes a line of go's output.
func (c *count) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[line] {
		c.compiled[line] = true
		c.last = line
	}
}

// String says how far the build is.
func (c *count) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == "" {
		return fmt.Sprintf("%d packages", len(c.known))
	}
	return fmt.Sprintf("%d packages compiled, of at most %d, the last %s", len(c.compiled), len(c.known), c.last)
}
