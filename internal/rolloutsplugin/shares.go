package rolloutsplugin

import (
	"slices"
	"sync"
)

// Shares runs functions in the background, so many at once, and so many of one
// namespace: a namespace whose requests hang, because of a webhook or a limit of its own,
// does not hold up the others. Functions of one namespace begin in their order. Its
// methods are safe for concurrent use.
type Shares struct {
	atOnce, each int

	mu      sync.Mutex
	total   int
	running map[string]int
	waiting map[string][]func()
	// turns has each namespace with something waiting once; the first is next.
	turns []string
}

// NewShares returns Shares that run atOnce functions at once, and each of them for one
// namespace.
func NewShares(atOnce, each int) *Shares {
	return &Shares{atOnce: atOnce, each: each, running: map[string]int{}, waiting: map[string][]func(){}}
}

// Go runs a function for a namespace as soon as its turn comes. It does not wait.
func (s *Shares) Go(namespace string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting[namespace]) == 0 {
		s.turns = append(s.turns, namespace)
	}
	s.waiting[namespace] = append(s.waiting[namespace], do)
	s.start()
}

// Waiting returns how many functions of a namespace have not begun.
func (s *Shares) Waiting(namespace string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[namespace])
}

// start begins what may begin. The caller has locked s.
func (s *Shares) start() {
	for i := 0; s.total < s.atOnce && i < len(s.turns); {
		namespace := s.turns[i]
		if s.running[namespace] >= s.each {
			i++
			continue
		}
		do := s.waiting[namespace][0]
		s.waiting[namespace] = s.waiting[namespace][1:]
		s.turns = slices.Delete(s.turns, i, i+1)
		if len(s.waiting[namespace]) > 0 {
			s.turns = append(s.turns, namespace)
		} else {
			delete(s.waiting, namespace)
		}
		s.total++
		s.running[namespace]++
		go s.run(namespace, do)
	}
}

func (s *Shares) run(namespace string, do func()) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.running[namespace]--; s.running[namespace] == 0 {
			delete(s.running, namespace)
		}
		s.start()
	}()
	do()
}
