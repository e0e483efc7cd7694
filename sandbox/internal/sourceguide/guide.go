// Package sourceguide has the commands and manifests of the guide that this project
// follows, Kedify's "HTTP Scaling with Argo Rollouts Canary", and runs them: for the
// test that walks through it and for the demo that shows the walk.
package sourceguide

import (
	_ "embed"
	"regexp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
)

// The names of the guide's namespace, of the objects in it, and its host.
const (
	Namespace = "rollouts-demo"
	Name      = "rollouts-demo"
	Host      = "rollouts-demo.example.com"
)

// Manifests is the sample, as the guide prints it; its commands read it from
// ManifestsFile.
//
//go:embed manifests.yaml
var Manifests string

// ManifestsFile is the name of the file that the guide's commands apply.
const ManifestsFile = "manifests.yaml"

//go:embed commands.md
var commands string

//go:embed plugin.yaml
var plugin string

var (
	location = regexp.MustCompile(`https://\S+/rollouts-plugin-kedify-linux-amd64`)
	sha256   = regexp.MustCompile(`[0-9a-f]{64}`)
)

// Plugin returns option B of the guide: the permission, and the registration of the
// plugin, here with a URL and a SHA-256 in place of those of v0.0.1.
func Plugin(url, sum string) string {
	return sha256.ReplaceAllString(location.ReplaceAllString(plugin, url), sum)
}

// Steps returns the guide's commands with these names in commands.md; all if there are
// none.
func Steps(names ...string) ([]page.Step, error) {
	fences, err := page.Parse(commands)
	if err != nil || len(names) == 0 {
		return page.Steps(fences), err
	}
	return page.Named(page.Steps(fences), names...)
}
