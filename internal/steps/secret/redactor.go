package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// shortest is the length in bytes of the shortest value that is replaced. Shorter values
	// are no secrets, and replacing them would make texts unreadable.
	shortest = 4
	// shortestPart is the limit for the parts of a URL, which may be common words, and
	// shortestSegment the limit for a segment of its path.
	shortestPart    = 8
	shortestSegment = 16
	// mark is what stands in the place of a secret.
	mark = "***"
)

// Redactor replaces secrets in texts: as they are, as they appear in base64, URLs, JSON,
// HTML, hexadecimal digits and Go's quotes, and quoted twice. It ignores case, because names
// of hosts and headers change theirs. Values of fewer than 4 bytes are not replaced. The zero
// Redactor replaces nothing.
type Redactor struct{ forms map[string]bool }

// Add has the Redactor replace a value, and also the text after its first space: the header
// Authorization has a scheme before the secret.
func (r *Redactor) Add(value string) {
	r.add(value)
	if _, behind, ok := strings.Cut(value, " "); ok && len(behind) >= shortestPart {
		r.add(behind)
	}
}

func (r *Redactor) add(value string) {
	if len(value) < shortest {
		return
	}
	if r.forms == nil {
		r.forms = map[string]bool{}
	}
	forms := []string{value, url.PathEscape(value)}
	for _, text := range []string{value, url.QueryEscape(value)} { // OAuth2 escapes what it puts into Basic
		forms = append(append(forms, hex.EncodeToString([]byte(text))), inBase64(text)...)
	}
	// What is quoted is often quoted again: an error in JSON.
	for _, form := range append(forms, quotings(value)...) {
		forms = append(forms, quotings(form)...)
	}
	for _, form := range forms {
		if len(form) >= shortest {
			r.forms[lower(form)] = true
		}
	}
}

// quotings returns a text, and how it appears in JSON, in the query of a URL, in HTML and in
// Go's quotes.
func quotings(text string) []string {
	forms := []string{text, url.QueryEscape(text), html.EscapeString(text), quoted(strconv.Quote(text)), quoted(strconv.QuoteToASCII(text))}
	if escaped, err := json.Marshal(text); err == nil {
		plain := quoted(string(escaped))
		forms = append(forms, plain, unescapedHTML.Replace(plain), strings.ReplaceAll(plain, "/", `\/`))
	}
	return forms
}

// inBase64 returns the base64 digits of a text that is part of a longer text, such as a
// password after a user's name. There is one form for each offset in a group of three bytes.
// Digits at the ends that also encode neighbouring bytes are left out.
func inBase64(text string) []string {
	var forms []string
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		from, to := (before*8+5)/6, len(padded)*8/6
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, encoding.EncodeToString(padded)[from:to])
		}
	}
	return forms
}

// AddURL has the Redactor replace a URL, its path, its query and their longer parts, which an
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

var unescapedHTML = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// lower makes ASCII letters lower case, which keeps the length of the text.
func lower(text string) string {
	small := []byte(text)
	for i, c := range small {
		if c >= 'A' && c <= 'Z' {
			small[i] = c + 'a' - 'A'
		}
	}
	return string(small)
}

func quoted(text string) string { return text[1 : len(text)-1] }

// Text returns a text with the secrets replaced, also where they overlap.
func (r *Redactor) Text(text string) string { return without(text, r.find(text)) }

// find returns which bytes of a text belong to a secret, or nil if none does.
func (r *Redactor) find(text string) (hidden []bool) {
	if len(r.forms) == 0 {
		return nil
	}
	small := lower(text)
	for form := range r.forms {
		marked := 0
		for from := 0; ; {
			at := strings.Index(small[from:], form)
			if at < 0 {
				break
			}
			if hidden == nil {
				hidden = make([]bool, len(text))
			}
			from += at + 1
			for at, end := max(from-1, marked), from-1+len(form); at < end; at++ {
				hidden[at] = true
			}
			marked = from - 1 + len(form)
		}
	}
	return hidden
}

// without replaces each hidden part of a text by the mark.
func without(text string, hidden []bool) string {
	if !slices.Contains(hidden, true) {
		return text
	}
	var out strings.Builder
	for from := 0; from < len(text); {
		to := from
		for to < len(text) && hidden[to] == hidden[from] {
			to++
		}
		if hidden[from] {
			out.WriteString(mark)
		} else {
			out.WriteString(text[from:to])
		}
		from = to
	}
	return out.String()
}

// JSON returns a value as encoding/json decodes it, with the secrets replaced in its
// strings, keys and numbers. A number that contains a secret becomes a string.
func (r *Redactor) JSON(value any) any {
	if len(r.forms) == 0 {
		return value
	}
	// All texts are searched as one: an answer may have many, and there are many forms.
	var all strings.Builder
	eachText(value, func(text string) {
		all.WriteString(text)
		all.WriteByte('\n')
	})
	hidden := r.find(all.String())
	if hidden == nil {
		return value
	}
	return cleaned(value, func(text string) string {
		clean := without(text, hidden[:len(text)])
		hidden = hidden[len(text)+1:]
		return clean
	})
}

// eachText calls visit with each key, string and number of a value, in the order of cleaned.
func eachText(value any, visit func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			visit(key)
			eachText(value[key], visit)
		}
	case []any:
		for _, item := range value {
			eachText(item, visit)
		}
	case string:
		visit(value)
	case nil, bool:
	default:
		visit(fmt.Sprint(value))
	}
}

// cleaned returns a value with each key, string and number replaced by what clean makes of
// it.
func cleaned(value any, clean func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		all := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name := clean(key)
			all[name] = cleaned(value[key], clean)
		}
		return all
	case []any:
		all := make([]any, len(value))
		for i, item := range value {
			all[i] = cleaned(item, clean)
		}
		return all
	case string:
		return clean(value)
	case nil, bool:
		return value
	default:
		text := fmt.Sprint(value)
		if clean := clean(text); clean != text {
			return clean
		}
		return value
	}
}

// Error returns an error with the secrets replaced in its text. It wraps err, whose own text
// still has the secrets.
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
