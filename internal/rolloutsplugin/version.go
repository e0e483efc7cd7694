package rolloutsplugin

import (
	"fmt"
	"runtime"
)

// Version describes a build on one line, such as
// "rollouts-plugin-kedify v0.2.0 (commit 1a2b3c4, go1.26.1, linux/amd64)".
func Version(name, version, commit string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", name, version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
