package rolloutsplugin

import (
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
)

// LogPanic recovers a panic, and logs it with its stack. It is for work between two
// calls: a panic there would end the plugin, and there is no call to report it. It must
// be deferred directly.
func LogPanic(logger hclog.Logger, while string) {
	if cause := recover(); cause != nil {
		logger.Error("panic while "+while, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	}
}
