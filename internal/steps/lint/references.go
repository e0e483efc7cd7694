package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

var (
	// templated finds the actions of a template.
	templated = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// inTemplate finds .steps.x and index .steps "x"; inExpression steps.x.outputs and
	// steps["x"]. A text that is no expression has neither.
	inTemplate   = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])\.steps\.([A-Za-z0-9_]+)|index\s+\.steps\s+["` + "`" + `]([^"` + "`" + `]+)["` + "`" + `]`)
	inExpression = regexp.MustCompile(`(?:^|[^A-Za-z0-9_./])steps(?:\.([A-Za-z0-9_]+)\.outputs\b|\[["']([^"']+)["']\])`)
	// field finds .rollout.name, quoted finds string literals in a template, and movesDot
	// finds actions that change what the dot means.
	field    = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.)\]])\.([a-z]+)\.([A-Za-z0-9_]+)`)
	quoted   = regexp.MustCompile("\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`")
	movesDot = regexp.MustCompile(`\{\{-?\s*(?:range|with|define|block)\b`)
)

// references returns a problem for each reference to the outputs of a step that does not
// exist or comes later, and for each unknown field in a template.
func references(all []pluginStep) []Problem {
	var problems []Problem
	for n, s := range all {
		var earlier []string
		for _, other := range all[:n+1] { // a step can refer to its own outputs
			earlier = append(earlier, other.id)
		}
		walk(s.path, s.config, func(path, text string) {
			for _, message := range unknownIn(text) {
				problems = append(problems, Problem{path, message})
			}
			for _, id := range referredTo(text) {
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

// referredTo returns the ids of the steps that a text refers to.
func referredTo(text string) []string {
	var ids []string
	add := func(found [][]string) {
		for _, match := range found {
			for _, id := range match[1:] {
				if id != "" && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	for _, evaluated := range templated.FindAllString(text, -1) {
		add(inTemplate.FindAllStringSubmatch(evaluated, -1))
	}
	add(inExpression.FindAllStringSubmatch(text, -1))
	return ids
}

// scope is what templates can refer to. Maps whose keys come from the user are empty.
var scope = steps.Scope(steps.Work{Rollout: &v1alpha1.Rollout{}}, nil)

// unknownIn returns a message for each field that a text's templates refer to and that the
// scope does not have. Other top-level names, such as the response to a request, belong to
// the kind of step and are not checked.
func unknownIn(text string) []string {
	var problems []string
	for _, evaluated := range templated.FindAllString(text, -1) {
		if movesDot.MatchString(evaluated) {
			return problems // a dot further on is not the scope any more
		}
		for _, match := range field.FindAllStringSubmatch(quoted.ReplaceAllString(evaluated, `""`), -1) {
			fields, isMap := scope[match[1]].(map[string]any)
			if _, known := fields[match[2]]; !isMap || known || match[1] == "steps" {
				continue
			}
			problems = append(problems, fmt.Sprintf("there is no .%s.%s: did you mean .%s.%s?", match[1], match[2], match[1], nearest.Word(match[2], slices.Sorted(maps.Keys(fields)))))
		}
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
