package rolloutsplugin

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr/funcr"
	"github.com/hashicorp/go-hclog"
	"k8s.io/klog/v2"
)

// LogLevels and LogFormats are the values NewLogger takes.
var (
	LogLevels  = []string{"trace", "debug", "info", "warn", "error"}
	LogFormats = []string{"json", "text"}
)

// NewLogger returns a logger that writes to w. The format "json" is hclog's
// JSON, the only one of which the controller keeps the level; "text" is for
// people. A level or format that is not one of LogLevels or LogFormats is an
// error. client-go's own messages follow to the same logger, at debug: what
// matters of them is returned as errors by the calls they belong to.
//
// Make the logger before Serve: Serve replaces os.Stderr by a pipe that the
// controller throws away.
func NewLogger(w io.Writer, name, level, format string) (hclog.Logger, error) {
	if err := checkLog(level, format); err != nil {
		return nil, err
	}
	logger := hclog.New(&hclog.LoggerOptions{
		Name:       name,
		Level:      hclog.LevelFromString(level),
		Output:     w,
		JSONFormat: format == "json",
	})
	clientgo := logger.Named("client-go")
	klog.SetLogger(funcr.New(func(_, args string) { clientgo.Debug(args) }, funcr.Options{}))
	return logger, nil
}

func checkLog(level, format string) error {
	if !slices.Contains(LogLevels, level) {
		return fmt.Errorf("--log-level %q: want one of %s", level, strings.Join(LogLevels, ", "))
	}
	if !slices.Contains(LogFormats, format) {
		return fmt.Errorf("--log-format %q: want one of %s", format, strings.Join(LogFormats, ", "))
	}
	return nil
}
