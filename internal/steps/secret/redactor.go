package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// shortest is the length in bytes of the shortest value that is replaced. Without
	// shorter ones no text could be read: they are no secrets.
	shortest = 4
	// shortestPart is that for the parts of a URL, which may be common words, and
	// shortestSegment that for what is between two slashes.
	shortestPart    = 8
	shortestSegment = 16
	// mark is what stands in the place of a secret.
	mark = "***"
)

// Redactor replaces secrets in texts: as they are, and as they come back in base64, URLs,
// JSON, HTML, hexadecimal digits and Go's quotes. Values of fewer than 4 bytes are left. The
// zero Redactor replaces nothing.
type Redactor struct{ forms map[string]bool }

// Add has a value be replaced.
func (r *Redactor) Add(value string) {
	if len(value) < shortest {
		return
	}
	if r.forms == nil {
		r.forms = map[string]bool{}
	}
	raw := []byte(value)
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value), hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw))}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// Without padding, it is part of the form with padding.
		forms = append(forms, encoding.EncodeToString(raw))
	}
	forms = append(forms, quoted(strconv.Quote(value)), quoted(strconv.QuoteToASCII(value)))
	if escaped, err := json.Marshal(value); err == nil {
		forms = append(forms, quoted(string(escaped)), quoted(unescapedHTML.Replace(string(escaped))))
	}
	for _, form := range forms {
		if len(form) >= shortest {
			r.forms[form] = true
			r.forms[lowerPercent.ReplaceAllStringFunc(form, strings.ToLower)] = true
			r.forms[strings.ReplaceAll(form, "/", `\/`)] = true
		}
	}
}

// AddPair has a user's name and password be replaced as the header Authorization has them.
func (r *Redactor) AddPair(user, password string) { r.Add(user + ":" + password) }

// AddURL has a URL be replaced, and its path, its query and their longer parts, which an
// answer may repeat.
func (r *Redactor) AddURL(text string) {
	r.Add(text)
	parsed, err := url.Parse(text)
	if err != nil {
		return
	}
	parts := []string{parsed.Path, parsed.EscapedPath(), parsed.RequestURI(), parsed.RawQuery, parsed.Fragment}
	for _, values := range parsed.Query() {
		parts = append(parts, values...)
	}
	for _, segment := range strings.Split(parsed.Path, "/") {
		if len(segment) >= shortestSegment {
			parts = append(parts, segment)
		}
	}
	for _, part := range parts {
		if len(part) >= shortestPart {
			r.Add(part)
		}
	}
}

var (
	lowerPercent  = regexp.MustCompile(`%[0-9A-F]{2}`)
	unescapedHTML = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
)

func quoted(text string) string { return text[1 : len(text)-1] }

// Text returns a text with the secrets replaced, also where they overlap.
func (r *Redactor) Text(text string) string {
	var hidden []span
	for form := range r.forms {
		for from := 0; ; {
			at := strings.Index(text[from:], form)
			if at < 0 {
				break
			}
			hidden = append(hidden, span{from + at, from + at + len(form)})
			from += at + 1
		}
	}
	if len(hidden) == 0 {
		return text
	}
	slices.SortFunc(hidden, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for _, s := range hidden {
		if s.from >= end {
			out.WriteString(text[end:s.from])
			out.WriteString(mark)
		}
		end = max(end, s.to)
	}
	out.WriteString(text[end:])
	return out.String()
}

// span is where a secret is in a text.
type span struct{ from, to int }

// JSON returns a value as encoding/json decodes it, with the secrets replaced in its
// strings, keys and numbers. A number that holds one becomes a string.
func (r *Redactor) JSON(value any) any {
	if len(r.forms) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		clean := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			clean[r.Text(key)] = r.JSON(value[key])
		}
		return clean
	case []any:
		clean := make([]any, len(value))
		for i, item := range value {
			clean[i] = r.JSON(item)
		}
		return clean
	case string:
		return r.Text(value)
	case nil, bool:
		return value
	default:
		text := fmt.Sprint(value)
		if clean := r.Text(text); clean != text {
			return clean
		}
		return value
	}
}

// Error returns an error with the secrets replaced in its text. It wraps the error, whose
// own text has them.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	return &redacted{r.Text(err.Error()), err}
}

type redacted struct {
	text string
	err  error
}

func (e *redacted) Error() string { return e.text }

func (e *redacted) Unwrap() error { return e.err }
