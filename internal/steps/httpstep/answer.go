package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

const (
	// maxQuoted bounds what a message quotes of an answer, maxMessage what the configuration's
	// message says, in bytes.
	maxQuoted  = 200
	maxMessage = 400
	// maxRetryAfter bounds the wait that an answer asks for.
	maxRetryAfter = time.Hour
	// maxJSONValues bounds the values of an answer that is JSON: each takes some hundred bytes
	// once it is decoded.
	maxJSONValues = 50_000
)

// limited are the statuses of an answer that asks for patience: the request was not carried
// out.
var limited = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}

// answer is an answer of the API. It may repeat secrets.
type answer struct {
	// what names the request for messages: POST https://ci.example.com.
	what string
	*outbound.Response
	// parts are those that expressions refer to, as they see them.
	parts map[string]any
	// decoded is set while the answer's JSON is held.
	decoded func()
}

// release gives back what the answer takes of the memory for all answers.
func (a *answer) release() {
	if a == nil {
		return
	}
	a.Release()
	if a.decoded != nil {
		a.decoded()
	}
}

// describe names an answer for people, by its status. The body is left out: that of a successful
// answer may hold a fresh token.
func (a *answer) describe() string {
	return strings.TrimSpace(fmt.Sprintf("%s answered %d %s", a.what, a.Status, http.StatusText(a.Status)))
}

func (a *answer) accepted(accept []int) bool {
	return a.Status >= 200 && a.Status < 300 || slices.Contains(accept, a.Status)
}

// judge returns an error unless an answer is 2xx, or accepted. Its outcome is that of a
// request that changes something.
func (s *session) judge(a *answer, accept ...int) error {
	isLimited := slices.Contains(limited, a.Status) || a.Status == http.StatusForbidden &&
		(a.Header.Get("Retry-After") != "" || a.Header.Get("X-RateLimit-Remaining") == "0") // GitHub
	if !isLimited && a.accepted(accept) {
		return nil
	}
	e := &steps.Error{Cause: errors.New(a.describe()), RetryAfter: retryAfter(a.Header, s.kind.now())}
	if body := s.reader.Redactor.Quote(string(a.Body), maxQuoted); body != "" {
		e.Cause = fmt.Errorf("%w: %s", e.Cause, body)
	}
	switch {
	case isLimited:
	case a.Status >= 500:
		// A gateway may answer 5xx although the server behind it has begun.
		e.Outcome = steps.MayBeDone
	case a.Status >= 400:
		e.Final = true
	default: // a redirect that leads nowhere
		e.Final, e.Outcome = true, steps.MayBeDone
	}
	return e
}

// judgeSuccess returns an error unless the successCondition of a request is true of an answer
// of 2xx. When it is false, the request was refused. When it has no value, or asks for JSON
// that an answer such as a gateway's page does not have, nothing is known; a request that
// changes something is then not made again, as the condition may be wrong, and the request
// carried out each time.
func (s *session) judgeSuccess(ctx context.Context, c *call, a *answer) error {
	has, err := s.holds(ctx, c.success, a)
	if has {
		return nil
	}
	if value, isDecoded := a.parts["json"]; isDecoded && value == nil {
		err = errors.New("the answer is no JSON")
	}
	if err != nil {
		return &steps.Error{Final: c.changes, Outcome: steps.MayBeDone, Cause: fmt.Errorf("%s, and %s.successCondition: %w", a.describe(), c.path, err)}
	}
	cause := fmt.Errorf("%s, and %s.successCondition is false: %s", a.describe(), c.path, c.successText)
	if body := s.reader.Redactor.Quote(string(a.Body), maxQuoted); body != "" {
		cause = fmt.Errorf("%w: %s", cause, body)
	}
	return &steps.Error{Final: true, Cause: cause}
}

// retryAfter returns how long an answer asks to wait, by Retry-After (a number of seconds, or
// a date) or by the end of a rate limit.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	} else if at, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64); err == nil && text == "" && header.Get("X-RateLimit-Remaining") == "0" {
		wait = time.Unix(at, 0).Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// evaluate returns the outputs over an answer. An output without a value is an error, or left
// out if partial is true. One that holds a secret is an error: the status would keep it. What
// has been answered is evaluated even if ctx ends, for at most as long as the budget lets it.
func (s *session) evaluate(ctx context.Context, outputs []output, a *answer, partial bool) (map[string]string, error) {
	values := map[string]string{}
	for _, o := range outputs {
		value := ""
		vars, err := s.varsOver(a, o.value.References)
		if err == nil {
			value, err = o.value.Text(context.WithoutCancel(ctx), s.budget, vars)
		}
		switch {
		case err == nil && s.reader.Redactor.Contains(value):
			return values, fmt.Errorf("%s: the value holds a secret of the step, and everybody who may read the Rollout would see it", o.path)
		case err == nil:
			values[o.name] = value
		case !partial:
			return values, fmt.Errorf("%s: %w", o.path, err)
		}
	}
	return values, nil
}

// holds tells whether a condition is true of an answer.
func (s *session) holds(ctx context.Context, x *cel.Expression, a *answer) (bool, error) {
	vars, err := s.varsOver(a, x.References)
	if err != nil {
		return false, err
	}
	return x.Bool(context.WithoutCancel(ctx), s.budget, vars)
}

// varsOver returns what an expression over an answer sees. Parts of the answer to which it does not
// refer are not decoded.
func (s *session) varsOver(a *answer, references cel.References) (cel.Vars, error) {
	if a.parts == nil {
		headers := make(map[string]string, len(a.Header))
		for name, values := range a.Header {
			headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
		a.parts = map[string]any{"status": a.Status, "headers": headers}
	}
	if _, has := a.parts["text"]; !has && references.Uses("response.text") {
		a.parts["text"] = strings.ToValidUTF8(string(a.Body), "\uFFFD")
	}
	if _, has := a.parts["json"]; !has && references.Uses("response.json") {
		if n := cel.ValuesIn(a.Body); n > maxJSONValues {
			return nil, fmt.Errorf("the answer has %d values in its JSON: want %d at most; ask for less", n, maxJSONValues)
		}
		a.decoded = s.kind.decoding()
		a.parts["json"], _ = cel.FromJSON(a.Body) // nil if it is not JSON
	}
	vars := maps.Clone(s.vars)
	vars["response"] = a.parts
	return vars, nil
}
