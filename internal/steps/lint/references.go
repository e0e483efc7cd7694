package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

// references returns a problem for each reference to the outputs of a step that does not
// exist or comes later. Other names that do not exist are found as a step's kind reads it.
func references(all []pluginStep) []Problem {
	var problems []Problem
	for n, s := range all {
		var earlier []string
		for _, other := range all[:n+1] { // a step can refer to its own outputs
			earlier = append(earlier, other.id)
		}
		walk(s.path, s.config, func(path, text string) {
			for _, id := range cel.ReferencesIn(text).Steps {
				later := slices.IndexFunc(all[n+1:], func(other pluginStep) bool { return other.id == id })
				switch {
				case slices.Contains(earlier, id):
				case later >= 0:
					problems = append(problems, Problem{path, fmt.Sprintf("refers to the outputs of step %q, which comes later (step %d)", id, all[n+1+later].index+1)})
				case len(earlier) > 1:
					problems = append(problems, Problem{path, fmt.Sprintf("refers to the outputs of step %q, and no step has that id: the plugin steps before this one have the ids %s", id, strings.Join(earlier[:n], ", "))})
				default:
					problems = append(problems, Problem{path, fmt.Sprintf("refers to the outputs of step %q, and there is no plugin step before this one", id)})
				}
			}
		})
	}
	return problems
}

// walk calls visit for each text in a value, with its path.
func walk(path string, value any, visit func(path, text string)) {
	switch value := value.(type) {
	case string:
		visit(path, value)
	case []any:
		for i, item := range value {
			walk(fmt.Sprintf("%s[%d]", path, i), item, visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			walk(path+"."+key, value[key], visit)
		}
	}
}
