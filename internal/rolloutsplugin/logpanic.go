package rolloutsplugin

import (
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
)

// LogPanic logs a panic, with its stack, and ends it. It is for what runs between
// two calls: a panic there is in no call that could report it, and would end the
// plugin. It must be deferred directly.
func LogPanic(logger hclog.Logger, while string) {
	if cause := recover(); cause != nil {
		logger.Error("panic while "+while, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	}
}
