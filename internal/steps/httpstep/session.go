package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

// session is one operation of a step.
type session struct {
	*step
	work   steps.Work
	reader *secret.Reader
	scope  map[string]any
	// pool bounds the work of the step's templates and expressions in this operation.
	pool *bound.Pool
	// unread says which of the step's secrets could not be read: if an answer repeats it,
	// that cannot be noticed.
	unread error
}

func (s *step) session(ctx context.Context, work steps.Work) (*session, error) {
	n := &session{step: s, work: work, pool: bound.NewPool(), reader: secret.NewReader(s.kind.objects, work.Rollout.Namespace)}
	var stable *corev1.PodTemplateSpec
	var err error
	if s.needsStable {
		stable, err = steps.StableTemplate(ctx, s.kind.objects, work.Rollout)
	}
	n.scope = steps.Scope(work, stable)
	n.setOutputs(work.Outputs)
	n.unread = n.readSecrets(ctx)
	return n, err
}

// setOutputs makes the step's outputs visible to templates and expressions.
func (s *session) setOutputs(outputs map[string]string) {
	all := map[string]any{}
	for name, value := range outputs {
		all[name] = value
	}
	s.scope["outputs"] = all
}

// readSecrets reads all secrets that the step refers to, so that they are kept out of what
// this operation says: an answer may repeat what another request of the step has sent. The
// error names the first secret that cannot be read.
func (s *session) readSecrets(ctx context.Context) (err error) {
	for _, c := range s.calls() {
		for _, t := range c.secrets() {
			value, unread := s.value(ctx, t)
			if err == nil {
				err = unread
			}
			if unread == nil && t.ref == c.url.ref {
				s.reader.Redactor.AddURL(value)
			}
		}
		if c.auth.secret.isSet() {
			if client, err := s.oauthClient(ctx, c); err == nil {
				if token := s.kind.tokens.last(client.key); token != nil {
					s.reader.Redactor.Add(token.AccessToken)
				}
			}
		}
	}
	return err
}

// calls are the step's requests.
func (s *step) calls() []*call {
	var all []*call
	for _, c := range []*call{s.request, s.cancel, s.onAbort} {
		if c != nil {
			all = append(all, c)
		}
	}
	if s.find != nil {
		all = append(all, &s.find.call)
	}
	if s.poll != nil {
		all = append(all, &s.poll.call)
	}
	return all
}

// value returns the rendered text, or the secret to which it refers. A text that cannot be
// rendered is a RefusedError; reading a secret may succeed at another attempt.
func (s *session) value(ctx context.Context, t text) (string, error) {
	return s.valueIn(ctx, t, s.scope)
}

func (s *session) valueIn(ctx context.Context, t text, scope map[string]any) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if t.ref != nil {
		value, err := s.reader.Secret(ctx, t.ref)
		if err != nil {
			return "", fmt.Errorf("%s: %w", t.path, err)
		}
		return value, nil
	}
	value, err := t.template.Within(s.pool).RenderLine(scope)
	if err != nil {
		return "", &outbound.RefusedError{Cause: fmt.Errorf("%s: %w", t.path, err)}
	}
	return value, nil
}

// answer is an answer of the outside system. It may repeat secrets: messages take their
// text from quote, and expressions theirs from environment, without the secrets.
type answer struct {
	// what names the request for messages: POST https://ci.example.com.
	what string
	*outbound.Response
	// seen holds the parts of the answer that expressions have seen.
	seen map[string]any
}

// send makes a request. key is its Idempotency-Key; empty for a request that changes
// nothing.
func (s *session) send(ctx context.Context, c *call, key string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := s.prepare(ctx, c, key)
	if err != nil {
		return nil, err
	}
	token, kept, err := s.authorize(ctx, c, &r)
	if err != nil {
		return nil, err
	}
	a, err := s.roundTrip(ctx, r)
	if err != nil || a.Status != http.StatusUnauthorized || !kept {
		return a, err
	}
	// A token may be revoked before it expires.
	s.kind.tokens.drop(token)
	if _, _, err := s.authorize(ctx, c, &r); err != nil {
		return nil, err
	}
	return s.roundTrip(ctx, r)
}

func (s *session) roundTrip(ctx context.Context, r outbound.Request) (*answer, error) {
	a := &answer{what: outbound.Describe(r.Method, r.URL)}
	var err error
	a.Response, err = s.kind.client.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	s.kind.opts.Logger.Debug("request", "request", a.what, "status", a.Status, "rollout", s.work.Rollout.Namespace+"/"+s.work.Rollout.Name, "step", s.work.Index)
	return a, nil
}

// prepare renders a request, without the credentials of auth.
func (s *session) prepare(ctx context.Context, c *call, key string) (r outbound.Request, err error) {
	// key is empty for polls and looks.
	r = outbound.Request{Method: c.method, Header: http.Header{}, Hosts: s.hosts, HostsOnly: c.confined(), Repeatable: key == ""}
	scope := s.scope
	if c == s.cancel || c == s.onAbort {
		scope = s.withoutEmptyOutputs()
	}
	if r.URL, err = s.valueIn(ctx, c.url, scope); err != nil {
		return r, err
	}
	switch {
	case c.json != nil:
		r.Header.Set("Content-Type", "application/json")
		if r.Body, err = c.json.Within(s.pool).Render(s.scope); err != nil {
			return r, &outbound.RefusedError{Cause: fmt.Errorf("%s.json: %w", c.path, err)}
		}
	case c.text != nil:
		r.Header.Set("Content-Type", "text/plain; charset=utf-8")
		rendered, err := c.text.Within(s.pool).Render(s.scope)
		if err != nil {
			return r, &outbound.RefusedError{Cause: fmt.Errorf("%s.text: %w", c.path, err)}
		}
		r.Body = []byte(rendered)
	}
	if key != "" && !outbound.ReadsOnly(c.method) {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, h := range c.headers {
		value, err := s.value(ctx, h.value)
		if err != nil {
			return r, err
		}
		if err := outbound.CheckHeaderValue(value); err != nil {
			return r, &outbound.RefusedError{Cause: fmt.Errorf("%s: %w", h.value.path, err)}
		}
		r.Header.Set(h.name, value)
	}
	if c.ca != nil {
		if r.CA, err = s.reader.Certificates(ctx, c.caKind, c.ca); err != nil {
			return r, fmt.Errorf("%s.caFrom: %w", c.path, err)
		}
		if r.CA == nil {
			r.CA = []byte{} // nil would be the system's
		}
	}
	return r, nil
}

// authorize adds the credentials of auth. kept is true for a token from the cache.
func (s *session) authorize(ctx context.Context, c *call, r *outbound.Request) (token tokenKey, kept bool, err error) {
	authorization := ""
	switch {
	case c.auth.bearer.isSet():
		value, err := s.value(ctx, c.auth.bearer)
		if err != nil {
			return token, false, err
		}
		authorization = "Bearer " + value
	case c.auth.password.isSet():
		user, password, err := s.pair(ctx, c.auth.user, c.auth.password)
		if err != nil {
			return token, false, err
		}
		basic := http.Request{Header: http.Header{}}
		basic.SetBasicAuth(user, password)
		authorization = basic.Header.Get("Authorization")
	case c.auth.tokenURL != nil:
		if authorization, token, kept, err = s.token(ctx, c, r.CA); err != nil {
			return token, false, fmt.Errorf("%s.auth.oauth2: %w", c.path, err)
		}
	default:
		return token, false, nil
	}
	if err := outbound.CheckHeaderValue(authorization); err != nil {
		return token, false, &outbound.RefusedError{Cause: fmt.Errorf("%s.auth: %w", c.path, err)}
	}
	r.Header.Set("Authorization", authorization)
	return token, kept, nil
}

// pair returns a user's name and password.
func (s *session) pair(ctx context.Context, user, password text) (name, secret string, err error) {
	if name, err = s.value(ctx, user); err != nil {
		return "", "", err
	}
	secret, err = s.value(ctx, password)
	return name, secret, err
}

// evaluate returns the outputs over an answer. An output without a value is an error, or
// left out if partial is true.
func (s *session) evaluate(outputs []output, a *answer, partial bool) (map[string]string, error) {
	if len(outputs) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	for _, o := range outputs {
		env, err := s.environment(a, o.value)
		value := ""
		if err == nil {
			value, err = o.value.Within(s.pool).Text(env)
		}
		switch {
		case err == nil:
			values[o.name] = s.reader.Redactor.Text(value)
		case !partial:
			return values, fmt.Errorf("%s: %w", o.path, err)
		}
	}
	return values, nil
}

// holds tells whether an expression is true.
func (s *session) holds(e *overAnswer, a *answer) (bool, error) {
	env, err := s.environment(a, e)
	if err != nil {
		return false, err
	}
	return e.Within(s.pool).Bool(env)
}

// environment returns what an expression sees.
func (s *session) environment(a *answer, e *overAnswer) (map[string]any, error) {
	if a.seen == nil {
		a.seen = map[string]any{"status": a.Status}
	}
	for _, name := range e.parts {
		if _, ok := a.seen[name]; ok {
			continue
		}
		part, err := a.part(name, &s.reader.Redactor)
		if err != nil {
			return nil, err
		}
		a.seen[name] = part
	}
	env := maps.Clone(s.scope)
	env["response"] = a.seen
	return env, nil
}

// clean removes the secrets from what an operation has found.
func (s *session) clean(p steps.Progress, err error) (steps.Progress, error) {
	redactor := &s.reader.Redactor
	p.Message, p.Waiting = redactor.Text(p.Message), redactor.Text(p.Waiting)
	var again *againError
	if errors.As(err, &again) {
		p.RetryAfter = again.after
	}
	return p, redactor.Error(err)
}
