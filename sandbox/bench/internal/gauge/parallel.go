package gauge

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Each runs work for from..to-1, at most workers calls at once, and returns the first
// failure. A failure does not stop the other calls.
func Each(workers, from, to int, work func(int) error) error {
	next := make(chan int)
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := work(i); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	return first
}

// Poll waits for a condition, at most two minutes.
func Poll(ctx context.Context, every time.Duration, what string, condition func() (bool, error)) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within 2 minutes: %s", what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
