// Command stepsreference prints what a canary step can be configured with: each key that the
// step plugin decodes, with the comment that its Go field has. It prints a page, or a JSON
// Schema for editors.
//
//	go run ./hack/stepsreference >docs/steps-reference.md
//	go run ./hack/stepsreference step-rollout.schema.json >deploy/schema/step-rollout.schema.json
//	go run ./hack/stepsreference step-preset.schema.json >deploy/schema/step-preset.schema.json
//
// A field's comment begins with its name and is written for people who write Rollouts. Its
// last paragraph is "Required." or "Default: …" where there is something to say.
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/httpstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/jobstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/resourcestep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

const introduction = `# Configuration of steps, key by key

<!-- Made by hack/stepsreference from the comments of the Go types. Do not edit it: make generate. -->

A step's ` + "`config`" + ` in a Rollout has the keys of [every kind](#every-kind), and one key that says what the step does:
[` + "`http`](#kind-http), [`job`](#kind-job), [`resource`](#kind-resource) or [`rollouts`](#kind-rollouts)" + `. The latter may be missing
with ` + "`use`" + `. A [preset](#presets) has the same keys under ` + "`defaults`" + `. [Canary steps](steps.md) says what the kinds are for, and what
[texts and conditions](steps.md#texts-and-conditions) can refer to. A key that is not listed here fails the step, with the
nearest one that is.

A duration is a string such as ` + "`90s`, `5m` or `1h30m`" + `.
`

// kindParts are the kinds of steps. A kind's name is the key with its section.
var kindParts = []struct {
	name string
	of   reflect.Type
}{
	{"http", reflect.TypeFor[httpstep.Config]()},
	{"job", reflect.TypeFor[jobstep.Config]()},
	{"resource", reflect.TypeFor[resourcestep.Config]()},
	{"rollouts", reflect.TypeFor[rolloutsstep.Config]()},
}

// parts are the reference. The type of each is what the step plugin decodes.
func parts() []part {
	all := []part{{"Every kind", "These", reflect.TypeFor[steps.Settings]()}}
	for _, kind := range kindParts {
		all = append(all, part{"Kind `" + kind.name + "`", "`" + kind.name + "`", kind.of})
	}
	return append(all,
		part{"References to Secrets", "A reference", reflect.TypeFor[secret.Reference]()},
		part{"Presets", "`preset.yaml`", reflect.TypeFor[steps.Preset]()},
	)
}

func main() {
	made, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "stepsreference: %v\n", err)
		os.Exit(1)
	}
	fmt.Print(made)
}

// makePage returns the page.
func makePage(root string) (string, error) {
	page, err := newReference(root).page(introduction, parts())
	return page + "\n## Functions\n\nExpressions have the operators of CEL and these functions and macros: `" +
		strings.Join(cel.Functions(), "`, `") + "`.\n\n" + bounds, err
}

// bounds are for people whose expression is refused.
const bounds = `An expression has 2 KiB at most, those of a step 12 KiB together. A text, and what it becomes, has 64 KiB. What
all of a request or an answer do together is bounded, at less than a second of CPU: more is an error.
`

func run(args []string) (string, error) {
	if len(args) == 0 {
		return makePage(".")
	}
	if schemas[args[0]] == nil {
		return "", fmt.Errorf("there is no schema %s", args[0])
	}
	text, err := makeSchema(".", args[0])
	return string(text), err
}
