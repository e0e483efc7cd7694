// Package kubectlcanary is the add-on with this project's kubectl plugin: `kubectl
// canary`, for commands run inside.
package kubectlcanary

import (
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
)

// Name of the add-on, and of its program: kubectl runs that for `kubectl canary`.
const Name = "kubectl-canary"

// Addon describes the kubectl plugin.
func Addon() addon.Addon {
	return addon.Addon{
		Name:     Name,
		Summary:  "kubectl canary, whose check looks at an installation",
		Default:  true,
		Programs: []addon.Program{{Name: Name, Variable: "KUBECTL_CANARY", Built: "bin/" + Name}},
		Commands: []string{Name},
	}
}
