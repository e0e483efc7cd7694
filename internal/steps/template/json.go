package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// maxJSONDepth bounds how deeply lists and objects of a JSON template are nested.
const maxJSONDepth = 32

// JSON is a JSON value in which each string is a template. It is safe for concurrent use.
type JSON struct {
	parts []part
	pool  *bound.Pool
}

// Within returns the value with a pool that its renderings pay from. The result is for one
// operation, and is not safe for concurrent use.
func (j *JSON) Within(pool *bound.Pool) *JSON { return &JSON{j.parts, pool} }

// part is a piece of literal JSON, followed by a string that is a template; the last part has
// no template.
type part struct {
	literal  []byte
	template *Template
	// path is the template's path in the value.
	path string
}

// ParseJSON reads a JSON value. Each string in it is a template and stays a string, whatever
// it is rendered to; keys are not templates. An error names the path of the string.
func ParseJSON(raw json.RawMessage) (*JSON, error) {
	if len(raw) > maxText {
		return nil, fmt.Errorf("JSON of more than %d KiB is not allowed", maxText>>10)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("no valid JSON")
	}
	p := jsonParser{decoder: json.NewDecoder(bytes.NewReader(raw))}
	p.decoder.UseNumber()
	if err := p.value("", 0); err != nil {
		return nil, err
	}
	p.parts = append(p.parts, part{literal: p.literal})
	return &JSON{parts: p.parts}, nil
}

// Render renders the strings over a scope. The result is valid JSON of 64 KiB at most, with
// the keys in the order of the source.
func (j *JSON) Render(scope map[string]any) (json.RawMessage, error) {
	budget := j.pool.Budget(maxWork, maxValue)
	var out bytes.Buffer
	for _, part := range j.parts {
		out.Write(part.literal)
		if part.template != nil {
			text, err := part.template.render(scope, budget, maxText)
			if err != nil {
				return nil, at(part.path, err)
			}
			if err := writeString(&out, text); err != nil {
				return nil, at(part.path, err)
			}
		}
		if out.Len() > maxText {
			return nil, bound.Errorf("the rendered JSON has more than %d KiB", maxText>>10)
		}
	}
	return out.Bytes(), nil
}

// at adds a path to an error; the path of the whole value is empty.
func at(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// writeString writes a JSON string.
func writeString(out *bytes.Buffer, text string) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return err
	}
	out.Truncate(out.Len() - len("\n"))
	return nil
}

type jsonParser struct {
	decoder *json.Decoder
	parts   []part
	// literal is what comes before the next template.
	literal []byte
}

// value reads the next value.
func (p *jsonParser) value(path string, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("more than %d lists and objects in one another are not allowed", maxJSONDepth)
	}
	token, err := p.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return p.object(path, depth)
		}
		return p.list(path, depth)
	case string:
		return p.text(path, token)
	default:
		literal, err := json.Marshal(token)
		p.literal = append(p.literal, literal...)
		return err
	}
}

func (p *jsonParser) text(path, text string) error {
	if !strings.Contains(text, "{{") {
		return p.key(text)
	}
	template, err := Parse(text)
	if err != nil {
		return at(path, err)
	}
	p.parts = append(p.parts, part{literal: p.literal, template: template, path: path})
	p.literal = nil
	return nil
}

// key appends a string that is no template.
func (p *jsonParser) key(text string) error {
	var out bytes.Buffer
	if err := writeString(&out, text); err != nil {
		return err
	}
	p.literal = append(p.literal, out.Bytes()...)
	return nil
}

func (p *jsonParser) object(path string, depth int) error {
	p.literal = append(p.literal, '{')
	for first := true; p.decoder.More(); first = false {
		if !first {
			p.literal = append(p.literal, ',')
		}
		token, err := p.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		under := strict.Join(path, key)
		if strings.Contains(key, "{{") {
			return fmt.Errorf("%s: a key is not a template", under)
		}
		if err := p.key(key); err != nil {
			return err
		}
		p.literal = append(p.literal, ':')
		if err := p.value(under, depth+1); err != nil {
			return err
		}
	}
	p.literal = append(p.literal, '}')
	_, err := p.decoder.Token()
	return err
}

func (p *jsonParser) list(path string, depth int) error {
	p.literal = append(p.literal, '[')
	for i := 0; p.decoder.More(); i++ {
		if i > 0 {
			p.literal = append(p.literal, ',')
		}
		if err := p.value(fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	p.literal = append(p.literal, ']')
	_, err := p.decoder.Token()
	return err
}
