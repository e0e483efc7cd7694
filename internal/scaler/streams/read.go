package streams

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// run reads one stream after another until the interceptor leaves.
func (s *stream) run(ctx context.Context) {
	defer close(s.stopped)
	delay, failing := backoff, false
	for {
		begun := time.Now()
		messages, err := s.read(ctx)
		s.tried.Store(true)
		if messages > 0 {
			s.figures.Disconnected(s.address)
			failing = false
		}
		if ctx.Err() != nil {
			return
		}
		// A try that fails as the one before is not told of.
		if !failing {
			s.log.Warn("the load reports of an interceptor ended, trying again", "interceptor", s.address, "error", err)
		}
		failing = messages == 0
		if time.Since(begun) > backoff.Cap {
			delay = backoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay.Step()):
		}
	}
}

// read reads a stream until it ends, and returns how many messages it had.
func (s *stream) read(ctx context.Context) (messages int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(s.silence, func() { cancel(fmt.Errorf("no message for %v", s.silence)) })
	defer silent.Stop()
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+loadreport.Path, nil)
	if err != nil {
		return 0, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s: it may be an older release", request.URL, response.Status)
	}
	for lines := bufio.NewReaderSize(response.Body, 64<<10); ; messages++ {
		line, err := readLine(lines, s.longest)
		if err != nil {
			return messages, err
		}
		silent.Stop() // until it is taken in
		var m loadreport.Message
		if err := json.Unmarshal(line, &m); err != nil {
			return messages, fmt.Errorf("message %d is not of this format: %w", messages+1, err)
		}
		s.figures.Apply(s.address, m)
		s.tried.Store(true)
		silent.Reset(s.silence)
	}
}

// readLine reads a line of at most so many bytes.
func readLine(r *bufio.Reader, longest int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > longest:
			return nil, fmt.Errorf("a message has more than %d bytes", longest)
		}
	}
}
