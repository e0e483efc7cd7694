package main

import (
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

// stepKeys is what a canary step can be configured with: each key that the step plugin
// decodes, with the comment of its Go field. A field's comment begins with its name and is
// written for people who write Rollouts. Its last paragraph is "Required." or "Default: …"
// where there is something to say.
func stepKeys(root string) (string, error) {
	keys, err := newReference(root).page(parts())
	return keys + "\n### Functions\n\nExpressions have the operators of CEL and these functions and macros: `" +
		strings.Join(cel.Functions(), "`, `") + "`.\n\n" + bounds, err
}

// bounds are for people whose expression is refused.
const bounds = `An expression has 2 KiB at most, those of a step 12 KiB together. A text, and what it becomes, has 64 KiB. What
all of a request or an answer do together is bounded, at less than a second of CPU: more is an error.
`
