package proxy

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// reloaded is what is made of files. It is made anew when they change, which is
// looked for when it is asked for, once a second at most; files that cannot be used
// leave the one before in force.
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

// get returns what the files hold now, or held when they were good last.
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

// changed compares what Kubernetes changes of a mounted Secret: the files that
// the names lead to.
func (r *reloaded[T]) changed() bool {
	for i, name := range r.names {
		now, err := os.Stat(name)
		if err != nil || !os.SameFile(now, r.files[i]) || !now.ModTime().Equal(r.files[i].ModTime()) || now.Size() != r.files[i].Size() {
			return true
		}
	}
	return false
}

// renew notes what the files were before it reads them: a change in between is
// seen the next time.
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
