package main

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// newLogger returns the log of the process. client-go's own messages go to it at debug:
// the code that calls client-go logs the errors that matter. The level can be changed.
func newLogger(w io.Writer, level, format string) (*slog.Logger, *slog.LevelVar, error) {
	least := new(slog.LevelVar)
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, err
	}
	options := &slog.HandlerOptions{Level: least}
	var handler slog.Handler = slog.NewJSONHandler(w, options)
	if format == "text" {
		handler = slog.NewTextHandler(w, options)
	}
	log := slog.New(handler)
	clientgo := log.With("from", "client-go")
	klog.SetLogger(funcr.New(func(_, args string) { clientgo.Debug(args) }, funcr.Options{}))
	return log, least, nil
}
