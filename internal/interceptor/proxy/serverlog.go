package proxy

import (
	"bytes"
	"context"
	"log/slog"
)

// serverLog takes the lines that Go's server has for people, as the writer of
// http.Server.ErrorLog. Most are on what clients do, such as a scanner that speaks
// no TLS: they are for who looks for them.
type serverLog struct{ log *slog.Logger }

// Write is part of io.Writer.
func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	switch {
	case bytes.Contains(line, []byte("panic serving")):
		level = slog.LevelError
	case bytes.HasPrefix(line, []byte("http: Accept error")):
		level = slog.LevelWarn // as when there are too many open files
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
