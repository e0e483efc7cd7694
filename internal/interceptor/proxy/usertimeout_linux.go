package proxy

import (
	"math"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout has the kernel give up a connection whose peer has acknowledged, or
// made room for, none of the data sent to it during timeout. With 0, or if it fails, the
// kernel's default stays.
func setUserTimeout(c syscall.RawConn, timeout time.Duration) {
	if timeout == 0 {
		return
	}
	ms := int(min(max(timeout/time.Millisecond, 1), math.MaxInt32))
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
	})
}
