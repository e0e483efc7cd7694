package httpstep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

const (
	// maxQuoted bounds what a message quotes of an answer, maxMessage what the configuration's
	// message says, in bytes.
	maxQuoted  = 200
	maxMessage = 400
	// maxRetryAfter bounds the wait that Retry-After asks for.
	maxRetryAfter = time.Hour
)

// againError is an answer after which the request is made again.
type againError struct {
	what  string
	after time.Duration
	// unsure is true when the outside system may have carried the request out.
	unsure bool
}

// Error names the request and the answer.
func (e *againError) Error() string { return e.what }

// Unwrap returns an UnansweredError if the outside system may have carried the request
// out.
func (e *againError) Unwrap() error {
	if e.unsure {
		return &steps.UnansweredError{Cause: fmt.Errorf("%s", e.what)}
	}
	return nil
}

// judge returns an error unless an answer is 2xx, or accepted: an againError for 429 and
// 5xx, a RefusedError for all others.
func (s *session) judge(a *answer, accept ...int) error {
	switch {
	case a.Status >= 200 && a.Status < 300 || slices.Contains(accept, a.Status):
		return nil
	case a.Status == http.StatusTooManyRequests || a.Status >= 500:
		// A gateway may answer 5xx although the server behind it has begun.
		return &againError{s.quote(a), retryAfter(a.Header.Get("Retry-After"), s.kind.now()), a.Status >= 500}
	default:
		return &outbound.RefusedError{Cause: fmt.Errorf("%s", s.quote(a)), Reached: true}
	}
}

// retryAfter reads Retry-After, which is a number of seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// quote describes an answer for people: its status and the beginning of its body.
func (s *session) quote(a *answer) string {
	said := fmt.Sprintf("%s answered %s", a.what, strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))))
	if body := oneLine(s.reader.Redactor.Text(string(a.Body)), maxQuoted); body != "" {
		said += ": " + body
	}
	return said
}

// oneLine returns the beginning of a text, on one line.
func oneLine(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if cut && text != "" {
		text += "…"
	}
	return text
}

// maxJSONValues bounds the values of an answer that is JSON: each takes some hundred bytes
// once it is decoded.
const maxJSONValues = 50_000

// part returns a part of an answer as expressions see it, without the secrets.
func (a *answer) part(name string, redactor *secret.Redactor) (any, error) {
	switch name {
	case partHeaders:
		headers := make(map[string]any, len(a.Header))
		for name, values := range a.Header {
			headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		return redactor.JSON(headers), nil
	case partText:
		return redactor.Text(strings.ToValidUTF8(string(a.Body), "\uFFFD")), nil
	default:
		if n := valuesIn(a.Body); n > maxJSONValues {
			return nil, fmt.Errorf("%s: the answer has %d values in its JSON: want %d at most; ask for less", a.what, n, maxJSONValues)
		}
		return plain(redactor.JSON(decode(a.Body))), nil
	}
}

// valuesIn returns how many values a JSON text has, or somewhat more.
func valuesIn(body []byte) int {
	if !json.Valid(body) {
		return 0
	}
	n := 1
	for c := range bound.Structure(body) {
		if c == ',' || c == '{' || c == '[' {
			n++
		}
	}
	return n
}

// decode reads a JSON body; nil if it is not JSON. Numbers stay as they are written.
func decode(body []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if !json.Valid(body) || decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

// plain turns the whole numbers of JSON into ints: an id of 64 bits has more digits than a
// float64.
func plain(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = plain(value[key])
		}
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
	case json.Number:
		if whole, err := strconv.Atoi(value.String()); err == nil {
			return whole
		}
		number, err := value.Float64()
		if err != nil {
			return value.String()
		}
		return number
	}
	return value
}
