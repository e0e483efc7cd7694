package acknowledgement

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The reason is the same with each connection: it is written on HTTPScaledObjects.
func TestReasonWithoutPort(t *testing.T) {
	reset := &url.Error{Op: "Get", URL: "http://10.0.0.1:9090/", Err: &net.OpError{
		Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 43210}, Err: os.NewSyscallError("read", syscall.ECONNRESET),
	}}
	if got := withoutPort(t.Context(), reset).Error(); strings.Contains(got, "43210") || !strings.Contains(got, "reset") {
		t.Errorf("got %q, want that it was reset, without the port of the connection", got)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if got := withoutPort(late, reset); got == nil || !strings.Contains(got.Error(), "not answered") {
		t.Errorf("after the time-out: %v", got)
	}
	other := errors.New("it answers 500")
	if got := withoutPort(t.Context(), other); !errors.Is(got, other) {
		t.Errorf("got %v, want %v", got, other)
	}
}
