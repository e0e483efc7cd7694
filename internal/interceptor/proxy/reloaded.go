package proxy

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// reloaded is a value that is read from files. get looks for changes, once a second at
// most, and reads changed files again; if they cannot be used, the value before stays
// in force.
type reloaded[T any] struct {
	what     string // as logs and errors name it
	names    []string
	read     func() (T, error)
	log      *slog.Logger
	interval time.Duration

	mu      sync.Mutex
	looked  time.Time
	files   []os.FileInfo
	current T
}

// load reads the files for the first time.
func (r *reloaded[T]) load(what string, read func() (T, error), log *slog.Logger, names ...string) error {
	r.what, r.names, r.read, r.log, r.interval = what, names, read, log, time.Second
	r.looked = time.Now()
	return r.renew()
}

// get returns the value of the files, or the last one that could be used.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.looked) >= r.interval {
		r.looked = now
		if r.changed() {
			if err := r.renew(); err != nil {
				r.log.Error("the new "+r.what+" cannot be used; the one before stays in force", "error", err)
			} else {
				r.log.Info(r.what+" read anew", "file", r.names[0])
			}
		}
	}
	return r.current
}

// changed tells whether the names lead to other files: Kubernetes updates a mounted
// Secret by changing the target of a symbolic link.
func (r *reloaded[T]) changed() bool {
	for i, name := range r.names {
		now, err := os.Stat(name)
		if err != nil || !os.SameFile(now, r.files[i]) || !now.ModTime().Equal(r.files[i].ModTime()) || now.Size() != r.files[i].Size() {
			return true
		}
	}
	return false
}

// renew reads the files. It calls os.Stat before that, so that the next look notices a
// change in between.
func (r *reloaded[T]) renew() error {
	files := make([]os.FileInfo, len(r.names))
	for i, name := range r.names {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("%s: %w; expected a file in PEM", r.what, err)
		}
		files[i] = info
	}
	fresh, err := r.read()
	if err != nil {
		return fmt.Errorf("%s %w", r.what, err)
	}
	r.files, r.current = files, fresh
	return nil
}
