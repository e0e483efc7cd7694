package cel

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxPattern bounds a regular expression, in bytes.
	maxPattern = 256
	// maxWeight bounds the instructions that it is compiled to: a few bytes of counted
	// repetitions can be a million.
	maxWeight = 1000
	// stepsPerUnit are the instructions that a match makes for a unit: each character of the
	// text may take each of them.
	stepsPerUnit = 32
)

// weightOf returns about how many instructions a regular expression is compiled to.
func weightOf(text string) (int, error) {
	if len(text) > maxPattern {
		return 0, fmt.Errorf("a regular expression of more than %d bytes is not allowed", maxPattern)
	}
	// With (?i) a class like [A-\x{1E920}] takes milliseconds to read, and so do a few \pL.
	if strings.Contains(text, `\x`) || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return 0, errors.New(`a regular expression has ASCII characters alone, and no \x`)
	}
	parsed, err := syntax.Parse(text, syntax.Perl&^syntax.UnicodeGroups)
	if err != nil {
		var problem *syntax.Error
		if errors.As(err, &problem) {
			return 0, fmt.Errorf("no regular expression: %s", problem.Code)
		}
		return 0, errors.New("no regular expression")
	}
	weight := weigh(parsed)
	if weight > maxWeight {
		return 0, fmt.Errorf("a regular expression that repeats so much is not allowed")
	}
	return weight, nil
}

// weigh returns the weight of a regular expression, or more than maxWeight.
func weigh(re *syntax.Regexp) int {
	weight := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		weight += weigh(sub)
	}
	if re.Op == syntax.OpRepeat {
		weight *= max(re.Min, re.Max, 1)
	}
	return min(weight, maxWeight+1)
}

// matches tells whether a text has a match of a regular expression.
func matches(m *meter, args []ref.Val) ref.Val {
	text, isText := args[0].(types.String)
	source, isPattern := args[1].(types.String)
	if !isText || !isPattern {
		return types.NoSuchOverloadErr()
	}
	p, known := m.patterns[string(source)]
	if !known {
		m.charge(4 * len(source))
		weight, err := weightOf(string(source))
		if err != nil {
			return types.WrapErr(callError{"matches: " + err.Error()})
		}
		m.charge(4 * weight)
		p.weight = weight
		if p.Regexp, err = regexp.Compile(string(source)); err != nil {
			return types.WrapErr(callError{"matches: no regular expression"})
		}
		m.patterns[string(source)] = p
	}
	m.charge((len(text) + 1) * p.weight / stepsPerUnit)
	return types.Bool(p.MatchString(string(text)))
}
