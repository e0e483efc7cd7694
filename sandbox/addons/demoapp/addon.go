// Package demoapp is the add-on with the application of the samples, in place of
// the image argoproj/rollouts-demo.
package demoapp

import (
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	repository = "argoproj/rollouts-demo"
	program    = "rollouts-demo"
)

// Colours are the tags that argoproj/rollouts-demo is published under.
var Colours = []string{"blue", "green", "orange", "purple", "red", "yellow"}

// Addon describes the application.
func Addon() addon.Addon {
	return addon.Addon{
		Name:     "demo-app",
		Summary:  "the image " + repository,
		Default:  true,
		StandIns: []string{program},
		// In all its colours, also slow (each answer takes two seconds) and bad (15 in a
		// hundred requests fail).
		Images: []image.Entry{entry("slow-*", "LATENCY=2"), entry("bad-*", "ERROR_RATE=15"), entry("*")},
	}
}

func entry(tag string, env ...string) image.Entry {
	e := image.Program(repository, "/"+program, program)
	e.Tag, e.Values = tag, Colours
	e.Image.Env = append([]string{"COLOR={*}"}, env...)
	return e
}
