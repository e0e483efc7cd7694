package bound

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// maxPattern bounds a regular expression, in bytes.
	maxPattern = 256
	// maxWeight bounds the instructions that a regular expression is compiled to: a few bytes
	// of counted repetitions can be a million instructions.
	maxWeight = 1000
	// compileCost is what compiling one instruction costs, in units of a Budget.
	compileCost = 100
)

// pattern is a regular expression and how many instructions each character of a text may
// take.
type pattern struct {
	*regexp.Regexp
	weight int
}

// CheckPattern returns an error if a regular expression is wrong or not allowed. It takes
// little time for any text.
func CheckPattern(text string) error {
	_, err := weightOf(text)
	return err
}

// weightOf returns how many instructions a regular expression is compiled to.
func weightOf(text string) (int, error) {
	if len(text) > maxPattern {
		return 0, Errorf("a regular expression of more than %d bytes is not allowed", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("regular expression %q: %w", text, err)
	}
	weight := weigh(parsed)
	if weight > maxWeight {
		return 0, Errorf("regular expression %q: it repeats too much", text)
	}
	return weight, nil
}

func (b *Budget) compile(text string) (*pattern, error) {
	weight, err := weightOf(text)
	if err != nil {
		return nil, err
	}
	if err := b.Spend(weight * compileCost); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", text, err)
	}
	return &pattern{compiled, weight}, nil
}

// weigh returns about how many instructions a regular expression is compiled to, or more
// than maxWeight.
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

// cost is the most that one search for a regular expression in a text can cost.
func (p *pattern) cost(text string) int { return (len(text) + 1) * p.weight }

// Match tells whether a text has a match of a regular expression.
func (b *Budget) Match(text, expression string) (bool, error) {
	p, err := b.compile(expression)
	if err != nil {
		return false, err
	}
	if err := b.Spend(p.cost(text)); err != nil {
		return false, err
	}
	return p.MatchString(text), nil
}

// Matches returns where the first n matches of a regular expression and its groups are in a
// text, as regexp.FindAllStringSubmatchIndex does; all where n is negative.
func (b *Budget) Matches(text, expression string, n int) (*regexp.Regexp, [][]int, error) {
	p, err := b.compile(expression)
	if err != nil {
		return nil, nil, err
	}
	// Each match is a search that may read the rest of the text.
	limit := b.left / p.cost(text)
	if n >= 0 {
		limit = min(n, limit)
	}
	matches := p.FindAllStringSubmatchIndex(text, limit)
	return p.Regexp, matches, b.Spend(p.cost(text) * (len(matches) + 1))
}

// maxReplacement bounds a replacement that refers to groups, in bytes.
const maxReplacement = 256

// ReplaceMatches replaces each match of a regular expression. Unless literal, $1 and ${name}
// in the replacement are groups.
func (b *Budget) ReplaceMatches(text, expression, replacement string, literal bool) (string, error) {
	if len(replacement) > maxReplacement {
		return "", Errorf("a replacement of more than %d bytes is not allowed", maxReplacement)
	}
	re, matches, err := b.Matches(text, expression, -1)
	if err != nil {
		return "", err
	}
	var result []byte
	end := 0
	for _, match := range matches {
		result = append(result, text[end:match[0]]...)
		if literal {
			result = append(result, replacement...)
		} else {
			result = re.ExpandString(result, replacement, text, match)
		}
		if err := b.Fits(len(result)); err != nil {
			return "", err
		}
		end = match[1]
	}
	return string(append(result, text[end:]...)), nil
}
