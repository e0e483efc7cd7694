package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxResponse bounds the body of an answer, decompressed, in bytes.
	maxResponse = 1 << 20
	// small is how much of each body is read without a place, in bytes.
	small = 64 << 10
	// large is how many bodies of more bytes there are at once.
	large = 8
)

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxResponse)

// places bound what a Client holds of bodies: all Rollouts may ask at the same time.
type places struct {
	taken   chan struct{}
	waiting *atomic.Int32
	// patience is how long a server may take for a large body while others wait for a place.
	patience time.Duration
}

func newPlaces() places {
	return places{taken: make(chan struct{}, large), waiting: new(atomic.Int32), patience: 2 * time.Second}
}

// read reads a body, and waits for a place if it is large. release gives the place back; a
// body that is not read to its end has none. cut ends the request.
func (p places) read(ctx context.Context, body io.Reader, cut context.CancelCauseFunc) (read []byte, release func(), err error) {
	read, err = io.ReadAll(io.LimitReader(body, small+1))
	if err != nil || len(read) <= small {
		return read, nil, err
	}
	p.waiting.Add(1)
	select {
	case p.taken <- struct{}{}:
		p.waiting.Add(-1)
	case <-ctx.Done():
		p.waiting.Add(-1)
		return read, nil, ctx.Err()
	}
	release = sync.OnceFunc(func() { <-p.taken })
	arrived := make(chan struct{})
	go p.watch(arrived, cut)
	whole := bytes.NewBuffer(read)
	_, err = whole.ReadFrom(io.LimitReader(body, maxResponse+1-int64(len(read))))
	close(arrived)
	if err == nil && whole.Len() > maxResponse {
		err = errTooLarge
	}
	if err != nil {
		release()
		return read, nil, err
	}
	return whole.Bytes(), release, nil
}

// watch ends a request whose large body takes long to arrive while others wait.
func (p places) watch(arrived <-chan struct{}, cut context.CancelCauseFunc) {
	ticker := time.NewTicker(p.patience)
	defer ticker.Stop()
	for {
		select {
		case <-arrived:
			return
		case <-ticker.C:
			if p.waiting.Load() > 0 {
				cut(errors.New("it arrived slowly, and others waited to be read"))
				return
			}
		}
	}
}
