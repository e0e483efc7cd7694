package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"json", "text"}
)

// newLogger returns the log of the process. client-go's own messages go to it at debug:
// the code that calls client-go logs the errors that matter.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	if !slices.Contains(logLevels, level) {
		return nil, fmt.Errorf("--log-level %q: want one of %s", level, strings.Join(logLevels, ", "))
	}
	if !slices.Contains(logFormats, format) {
		return nil, fmt.Errorf("--log-format %q: want one of %s", format, strings.Join(logFormats, ", "))
	}
	var options slog.HandlerOptions
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, err
	}
	options.Level = least
	var handler slog.Handler = slog.NewJSONHandler(w, &options)
	if format == "text" {
		handler = slog.NewTextHandler(w, &options)
	}
	log := slog.New(handler)
	clientgo := log.With("from", "client-go")
	klog.SetLogger(funcr.New(func(_, args string) { clientgo.Debug(args) }, funcr.Options{}))
	return log, nil
}
