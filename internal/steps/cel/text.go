package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Text is a text with CEL between {{ and }}. It is safe for concurrent use.
type Text struct {
	References
	parts []part
	use   use
}

// use is what a text is for.
type use int

const (
	inText use = iota
	inURL
	inJSON
	inContainer
)

// part is a literal text, or an expression.
type part struct {
	literal string
	value   *Expression
}

// text reads a Text.
func (e *Env) text(source string, use use) (*Text, error) {
	if len(source) > maxText {
		return nil, fmt.Errorf("a text of more than %d KiB is not allowed", maxText>>10)
	}
	t := &Text{use: use}
	for rest := source; rest != ""; {
		literal, after, found := strings.Cut(rest, "{{")
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !found {
			break
		}
		expression, after, err := cutExpression(after)
		if err != nil {
			return nil, fmt.Errorf("{{%s: %w", shorten(expression), err)
		}
		x, err := e.compile(expression, use == inURL)
		if err != nil {
			return nil, err
		}
		t.add(x.References)
		t.parts = append(t.parts, part{value: x})
		rest = after
	}
	if t.keepsType() {
		return t, nil
	}
	for _, p := range t.parts {
		if p.value == nil {
			continue
		}
		if err := p.value.checkText(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// keepsType tells whether the text is a string of JSON that is nothing but one value.
func (t *Text) keepsType() bool {
	return t.use == inJSON && len(t.parts) == 1 && t.parts[0].value != nil
}

// Prefix is the text before the first value.
func (t *Text) Prefix() string {
	if len(t.parts) == 0 {
		return ""
	}
	return t.parts[0].literal
}

// Constant tells whether there are no values in the text.
func (t *Text) Constant() bool {
	return len(t.parts) == 0 || len(t.parts) == 1 && t.parts[0].value == nil
}

// Raw tells whether a value of a URL is as it is.
func (t *Text) Raw() bool {
	for _, p := range t.parts {
		if p.value != nil && p.value.raw {
			return true
		}
	}
	return false
}

// Render renders the text.
func (t *Text) Render(ctx context.Context, budget *Budget, vars Vars) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		text := p.literal
		if p.value != nil {
			var err error
			if text, err = p.value.Text(ctx, budget, vars); err != nil {
				return "", err
			}
			if t.use == inContainer {
				text = strings.ReplaceAll(text, "$", "$$")
			}
			if t.use == inURL {
				if err := budget.spend(6 * len(text)); err != nil {
					return "", err
				}
				if text, err = escape(out.String(), text, p.value.raw); err != nil {
					return "", p.value.errorf("%w", err)
				}
			}
		}
		if out.Len()+len(text) > maxText {
			return "", errLong
		}
		if err := budget.spend(len(text)); err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	if t.use == inURL && !t.Constant() {
		if err := checkSegments(out.String()); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// RenderLine renders a text that must be one line.
func (t *Text) RenderLine(ctx context.Context, budget *Budget, vars Vars) (string, error) {
	text, err := t.Render(ctx, budget, vars)
	if err == nil && strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("the text has more than one line")
	}
	return text, err
}

// cutExpression cuts an expression off the }} that ends it, which is in no string and no
// braces.
func cutExpression(text string) (expression, rest string, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			end := endOfString(text, i)
			if end == len(text) {
				return text, "", fmt.Errorf("%s has no quote that ends it", shorten(text[i:]))
			}
			i = end
		case c == '{':
			depth++
		case depth > 0 && c == '}':
			depth--
		case strings.HasPrefix(text[i:], "}}"):
			return text[:i], text[i+2:], nil
		}
	}
	if strings.Contains(text, "{") {
		return text, "", errors.New("there is no }} after it, besides the } that ends each { in it")
	}
	return text, "", errors.New("there is no }} after it")
}

// endOfString returns where the string that begins at a quote ends.
func endOfString(text string, start int) int {
	quote := text[start : start+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[start:], triple) {
		quote = triple
	}
	raw := start > 0 && (text[start-1] == 'r' || text[start-1] == 'R')
	for i := start + len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote) - 1
		}
	}
	return len(text)
}
