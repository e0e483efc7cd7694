package proxy

import (
	"bytes"
	"context"
	"log/slog"
)

// serverLog is the writer of http.Server.ErrorLog. Most lines are about what clients
// do, such as a scanner that speaks no TLS: they are logged at debug.
type serverLog struct{ log *slog.Logger }

// Write is part of io.Writer.
func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	switch {
	case bytes.Contains(line, []byte("panic serving")):
		level = slog.LevelError
	case bytes.HasPrefix(line, []byte("http: Accept error")):
		level = slog.LevelWarn // such as for too many open files
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
