package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Up reports ErrInterrupted only if nothing is left behind.
func TestInterrupted(t *testing.T) {
	failure := errors.New("process 7 does not end")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"cut short":                {ended, fmt.Errorf("go build: %w", context.Canceled), ErrInterrupted},
		"cut short, clean-up fine": {ended, errors.Join(context.Canceled, nil), ErrInterrupted},
		"clean-up failed":          {ended, errors.Join(context.Canceled, failure), failure},
		"failed by itself":         {ended, failure, failure},
		"nobody interrupts":        {t.Context(), fmt.Errorf("a request: %w", context.Canceled), context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			got := orInterrupted(tc.ctx, tc.err)
			if !errors.Is(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
			if errors.Is(got, ErrInterrupted) != errors.Is(tc.want, ErrInterrupted) {
				t.Errorf("%v says that nothing is left", got)
			}
		})
	}
}

func TestUpInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Up(ctx, Options{State: t.TempDir() + "/state", Cache: t.TempDir()}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("Up: %v, want %v", err, ErrInterrupted)
	}
}
