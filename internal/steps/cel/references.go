package cel

import "strings"

// ReferencesIn returns what a text of a configuration refers to, for who does not know what
// kind of text it is: what stands between {{ and }}, or all of it if it is an expression. What
// cannot be read refers to nothing.
func ReferencesIn(text string) References {
	var all References
	if !strings.Contains(text, "{{") {
		all.add(lenient(text))
		return all
	}
	for {
		_, after, found := strings.Cut(text, "{{")
		if !found {
			return all
		}
		expression, rest, err := cutExpression(after)
		if err != nil {
			return all
		}
		all.add(lenient(expression))
		text = rest
	}
}

// lenient returns what an expression refers to, whether or not it is declared.
func lenient(source string) References {
	env, err := environment()
	if err != nil || len(source) > maxExpression {
		return References{}
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return References{}
	}
	found, _, _ := names{lenient: true}.in(parsed.NativeRep().Expr())
	return found
}
