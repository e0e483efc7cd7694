package rolloutsplugin

import (
	"path/filepath"
	"strings"
)

// RegisteredAs returns the name under which argo-rollouts-config registers the program that
// was started as path: the controller stores it as plugin-bin/<namespace>/<name>. It is
// empty for a program that is stored elsewhere.
func RegisteredAs(path string) string {
	rest, last := filepath.Split(filepath.ToSlash(path))
	rest, namespace := filepath.Split(strings.TrimSuffix(rest, "/"))
	if filepath.Base(rest) != "plugin-bin" || namespace == "" {
		return ""
	}
	return namespace + "/" + last
}
