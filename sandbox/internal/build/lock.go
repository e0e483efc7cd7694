package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// lock takes an exclusive lock on the file at path, waiting for as long as ctx lives
// while another process holds it. The kernel releases the lock when the process ends,
// so a build that was killed leaves no lock behind.
func lock(ctx context.Context, path string, out *progress.Printer) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("build lock: %w", err)
	}
	start := time.Now()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("build lock %s: %w", path, err)
		}
		out.Status("another process is building %s; waiting for it (%s)", strings.TrimSuffix(filepath.Base(path), ".lock"), progress.Seconds(time.Since(start)))
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("waiting for the build lock %s: %w", path, ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}
