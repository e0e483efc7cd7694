// Package sourceguide has the commands and manifests of the guide that this project
// follows, Kedify's "HTTP Scaling with Argo Rollouts Canary", and runs them: for the
// test that walks through it and for the demo that shows the walk.
package sourceguide

import (
	_ "embed"
	"regexp"
	"strings"
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

// Step is a fenced block of commands in a document, and the output shown after it, if
// any.
type Step struct{ Commands, Output string }

var fence = regexp.MustCompile("(?m)^( *)```(sh|text)\n((?s:.*?))^ *```$")

// Parse returns the commands of a document in Markdown. A fence may be indented, as in
// a list.
func Parse(markdown string) []Step {
	var steps []Step
	for _, match := range fence.FindAllStringSubmatch(markdown, -1) {
		var text strings.Builder
		for line := range strings.Lines(match[3]) {
			text.WriteString(strings.TrimPrefix(line, match[1]))
		}
		if match[2] == "sh" {
			steps = append(steps, Step{Commands: text.String()})
		} else if len(steps) > 0 {
			steps[len(steps)-1].Output = text.String()
		}
	}
	return steps
}

// Steps returns the guide's commands under a heading of commands.md; of all of them if
// it is empty.
func Steps(heading string) []Step {
	if heading == "" {
		return Parse(commands)
	}
	_, text, _ := strings.Cut(commands, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return Parse(text)
}
