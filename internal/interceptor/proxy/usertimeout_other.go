//go:build !linux

package proxy

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing: other kernels have no such option.
func setUserTimeout(syscall.RawConn, time.Duration) {}
