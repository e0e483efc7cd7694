package rolloutsplugin

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// awaitDeath returns true as soon as the process parent, this one's parent a moment
// ago, has died, and false when ctx ends or the kernel cannot tell: it is older than
// pidfd_open, or does not let the container use that.
func awaitDeath(ctx context.Context, parent int) bool {
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	// The id may have passed to another process before it was opened.
	if os.Getppid() != parent {
		return true
	}
	for ctx.Err() == nil {
		// The timeout lets the loop check ctx.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Second/time.Millisecond))
		switch {
		case n > 0:
			return true
		case err != nil && !errors.Is(err, unix.EINTR):
			return false
		}
	}
	return false
}
