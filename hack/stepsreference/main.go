// Command stepsreference prints the reference of what a canary step can be configured with:
// each key that the step plugin decodes, with the comment that its Go field has.
//
//	go run ./hack/stepsreference >docs/steps-reference.md
//
// A field's comment begins with its name and is written for people who write Rollouts. Its
// last paragraph is "Required." or "Default: …" where there is something to say.
package main

import (
	"fmt"
	"os"
	"reflect"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/httpstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/jobstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

const introduction = `# Configuration of steps, key by key

<!-- Made by hack/stepsreference from the comments of the Go types. Do not edit it: make generate. -->

What a step's ` + "`config`" + ` in a Rollout, and a [preset](steps.md#presets), can have. [Canary steps](steps.md) says what the
kinds are for, what [templates and expressions](steps.md#templates-and-expressions) can refer to, and what the
[flags](steps.md#the-program) of a registration are. A key that is not listed here fails the step, with the nearest one that is.

A duration is a string such as ` + "`90s`, `5m` or `1h30m`" + `.
`

// parts are the reference. The type of each is what the step plugin decodes.
var parts = []part{
	{"Every kind", "These", reflect.TypeFor[steps.Settings]()},
	{"Kind `http`", "`config`", reflect.TypeFor[httpstep.Config]()},
	{"Kind `job`", "`config`", reflect.TypeFor[jobstep.Config]()},
	{"Kind `rollouts`", "`config`", reflect.TypeFor[rolloutsstep.Config]()},
	{"References to Secrets", "A reference", reflect.TypeFor[secret.Reference]()},
	{"Presets", "`preset.yaml`", reflect.TypeFor[steps.Preset]()},
}

func main() {
	page, err := newReference(".").page(introduction, parts)
	if err != nil {
		fmt.Fprintf(os.Stderr, "stepsreference: %v\n", err)
		os.Exit(1)
	}
	fmt.Print(page)
}
