package xds

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A panic ends its stream, and is logged with the place in the code.
func TestGuard(t *testing.T) {
	var log bytes.Buffer
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	err := s.guard(nil, nil, nil, func(any, grpc.ServerStream) error { panic("no such host") })
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("the stream ends with %v; want Internal, with the panic", err)
	}
	if text := log.String(); !strings.Contains(text, "no such host") || !strings.Contains(text, "guard_test.go") {
		t.Errorf("the log does not say what and where: %s", text)
	}
}
