package secret

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
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

// Redactor replaces secrets in what people read: as they are, in base64, and escaped as in URLs,
// JSON and HTML, also in one another. It ignores case, because names of hosts and headers change
// theirs. Values of fewer than 4 bytes are not replaced. The zero Redactor replaces nothing.
type Redactor struct {
	forms map[string]bool
	// longest is the length in bytes of the longest form.
	longest int
}

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
	inQuery := url.QueryEscape(value) // OAuth2 escapes what it puts into Basic; + is a space
	forms := slices.Concat(inBase64(value), inBase64(inQuery))
	for _, text := range []string{value, inQuery, string([]rune(value))} { // JSON has U+FFFD for what is no UTF-8
		forms = append(forms, text)
		for range maxEscapes {
			text, _ = unescape(text, nil)
		}
		forms = append(forms, text)
	}
	for _, form := range forms {
		if len(form) < shortest {
			continue
		}
		if r.forms == nil {
			r.forms = map[string]bool{}
		}
		r.forms[lower(form)] = true
		r.longest = max(r.longest, len(form))
	}
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

// Text returns a text with the secrets replaced, also where they overlap.
func (r *Redactor) Text(text string) string { return without(text, r.find(text)) }

// Contains tells whether a text has a secret in it.
func (r *Redactor) Contains(text string) bool { return r.find(text) != nil }

// Quote returns the beginning of a text, with limit bytes of it at most, on one line and with
// the secrets replaced. It shows no part of a secret that goes on behind the limit, and does
// not read the text further than that.
func (r *Redactor) Quote(text string, limit int) string {
	shown := min(limit, len(text))
	hidden := r.find(text[:min(shown+maxEscape*r.longest, len(text))])
	line := bound.Line(without(text[:shown], hidden))
	// A secret may have spaces, which were ends of lines before.
	line = r.Text(line)
	if shown < len(text) && line != "" {
		line += "…"
	}
	return line
}

// find tells for each byte of a text whether it is a secret's; nil if there is none.
func (r *Redactor) find(text string) (hidden []bool) {
	size := len(text)
	var from []int
	for range maxEscapes + 1 {
		searched := lower(text)
		for form := range r.forms {
			for at, end := 0, 0; ; at++ {
				next := strings.Index(searched[at:], form)
				if next < 0 {
					break
				}
				if hidden == nil {
					hidden = make([]bool, size)
				}
				at += next
				for end = max(end, at); end < at+len(form); end++ {
					for i := origin(from, end); i < origin(from, end+1); i++ {
						hidden[i] = true
					}
				}
			}
		}
		plain, plainFrom := unescape(text, from)
		if plain == text {
			break
		}
		text, from = plain, plainFrom
	}
	return hidden
}

// without returns a text with the mark in the place of what is hidden in it.
func without(text string, hidden []bool) string {
	if hidden == nil {
		return text
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			out.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			out.WriteString(mark)
		}
	}
	return out.String()
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
