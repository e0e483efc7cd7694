package proxyworld

import "sync"

// Tail keeps the end of the text that is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write is part of io.Writer.
func (t *Tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	if len(t.text) > 2*tailSize {
		t.text = append(t.text[:0], t.text[len(t.text)-tailSize:]...)
	}
	return len(text), nil
}

// String is part of fmt.Stringer.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
