package httpstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// session is one operation of a step.
type session struct {
	*step
	work   steps.Work
	reader *secret.Reader
	vars   cel.Vars
	// budget bounds the work of the step's texts and expressions in this operation.
	budget *cel.Budget
	// unread says which of the step's secrets could not be read: if an answer repeats it,
	// that cannot be noticed.
	unread error
}

func (s *step) session(ctx context.Context, work steps.Work) (*session, error) {
	n := &session{step: s, work: work, budget: cel.NewBudget(), reader: secret.NewReader(s.kind.objects, work.Rollout.Namespace)}
	var stable *corev1.PodTemplateSpec
	var err error
	if s.needsStable {
		stable, err = steps.StableTemplate(ctx, s.kind.objects, work.Rollout)
	}
	n.vars = steps.Scope(work, stable)
	n.setOutputs(work.Outputs)
	n.unread = n.readSecrets(ctx)
	return n, err
}

// setOutputs makes the step's outputs visible to texts and expressions.
func (s *session) setOutputs(outputs map[string]string) {
	if outputs == nil {
		outputs = map[string]string{}
	}
	s.vars["outputs"] = outputs
}

// readSecrets reads all secrets that the step refers to, so that they are kept out of what
// this operation says: an answer may repeat what another request of the step has sent. The
// error names the first secret that cannot be read.
func (s *session) readSecrets(ctx context.Context) (err error) {
	for _, c := range s.calls() {
		for _, t := range c.references() {
			value, unread := s.value(ctx, t)
			if err == nil {
				err = unread
			}
			isURL := t.ref == c.own.url.ref || c.server != nil && t.ref == c.server.url.ref
			if at, err := url.Parse(value); isURL && unread == nil && (err != nil || strings.Trim(at.RequestURI(), "/") != "") {
				s.reader.Redactor.AddURL(value)
			}
		}
		if a := c.endpoint.auth; a != nil && a.tokenURL.isSet() {
			if _, key, err := s.oauthClient(ctx, a); err == nil {
				if token, _ := s.kind.keptToken(key); token != nil {
					s.reader.Redactor.Add(token.AccessToken)
				}
			}
		}
	}
	return err
}

// refuse returns the error of what cannot be sent as it is, and would not be at another
// attempt, unless the operation was told to end.
func refuse(path string, err error) error {
	isOver := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return &steps.Error{Final: !isOver, Cause: fmt.Errorf("%s: %w", path, err)}
}

// value returns the rendered text, or the secret to which it refers. A text that cannot be
// rendered is refused; reading a secret may succeed at another attempt.
func (s *session) value(ctx context.Context, t text) (value string, err error) {
	switch {
	case t.ref == nil:
		if value, err = t.text.RenderLine(ctx, s.budget, s.vars); err != nil {
			return "", refuse(t.path, err)
		}
		return value, nil
	case t.public:
		value, err = s.reader.Public(ctx, t.ref)
	default:
		value, err = s.reader.Secret(ctx, t.ref)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.path, err)
	}
	return value, nil
}

// do makes a request, and returns an error unless the answer is 2xx or accepted. key is its
// Idempotency-Key; empty for find and poll. Whoever gets an answer releases it, also beside an
// error.
func (s *session) do(ctx context.Context, c *call, key string, accept ...int) (*answer, error) {
	a, err := s.send(ctx, c, key)
	switch {
	case err != nil && a != nil && !a.accepted(accept):
		a.Body = nil // cut off, perhaps within a secret
		err = s.judge(a)
	case err == nil:
		if err = s.judge(a, accept...); err == nil && c.success != nil && a.accepted(nil) {
			err = s.judgeSuccess(ctx, c, a)
		}
	}
	// An idempotent clean-up is made again as often as it takes. An idempotent request has an
	// outcome nevertheless: whether cancel follows.
	hasOutcome := c.changes || c == s.request && !outbound.ReadsOnly(c.method)
	var e *steps.Error
	switch isError := errors.As(err, &e); {
	case isError && !hasOutcome:
		e.Outcome = steps.NotDone
	case isError && a != nil: // and what the requests before a redirect have done
		e.Outcome = max(e.Outcome, a.Outcome)
	}
	return a, err
}

// send makes a request within its timeout.
func (s *session) send(ctx context.Context, c *call, key string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, auth, err := s.prepare(ctx, c, key)
	if err != nil {
		return nil, err
	}
	token, kept, err := s.authorize(ctx, auth, &r)
	if err != nil {
		return nil, err
	}
	a, err := s.roundTrip(ctx, r)
	if err != nil || a.Status != http.StatusUnauthorized || !kept {
		return a, err
	}
	// A token may be revoked before it expires.
	s.kind.tokens.Remove(token)
	if a.Outcome != steps.NotDone { // before a redirect
		return a, nil
	}
	a.Release()
	if _, _, err := s.authorize(ctx, auth, &r); err != nil {
		return nil, err
	}
	return s.roundTrip(ctx, r)
}

func (s *session) roundTrip(ctx context.Context, r outbound.Request) (*answer, error) {
	response, err := s.kind.client.Do(ctx, r)
	if response == nil {
		return nil, err
	}
	a := &answer{what: outbound.Describe(r.Method, r.URL), Response: response}
	s.kind.opts.Logger.Debug("request", "request", a.what, "status", a.Status, "rollout", s.work.Rollout.Namespace+"/"+s.work.Rollout.Name, "step", s.work.Index)
	return a, err
}

// prepare renders a request, without its credentials, which it returns.
func (s *session) prepare(ctx context.Context, c *call, key string) (r outbound.Request, a *auth, err error) {
	r = outbound.Request{Method: c.method, Header: http.Header{}, Hosts: s.hosts, HostsOnly: c.confined()}
	var to endpoint
	if r.URL, to, err = s.destination(ctx, c); err != nil {
		return r, nil, err
	}
	if err := s.body(ctx, c, &r); err != nil {
		return r, nil, err
	}
	if key != "" && !outbound.ReadsOnly(c.method) {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, h := range to.headers {
		value, err := s.value(ctx, h.value)
		if err != nil {
			return r, nil, err
		}
		r.Header.Set(h.name, value)
	}
	if to.ca != nil {
		if r.CA, err = s.reader.Certificates(ctx, to.caKind, to.ca); err != nil {
			return r, nil, fmt.Errorf("%s.caFrom: %w", c.path, err)
		}
		if r.CA == nil {
			r.CA = []byte{} // nil would be the system's
		}
	}
	if to.certificate != nil {
		certificate, err := s.reader.Certificates(ctx, "Secret", to.certificate)
		if err != nil {
			return r, nil, fmt.Errorf("%s: %w", to.key.path, err)
		}
		key, err := s.value(ctx, to.key)
		if err != nil {
			return r, nil, err
		}
		r.ClientCert = slices.Concat(certificate, []byte("\n"+key+"\n"))
	}
	return r, to.auth, nil
}

// destination returns the URL of a request, and what is sent there: what is the server's goes
// to the server alone.
func (s *session) destination(ctx context.Context, c *call) (string, endpoint, error) {
	server, own := "", ""
	var err error
	if c.server != nil {
		if server, err = s.value(ctx, c.server.url); err != nil {
			return "", endpoint{}, err
		}
		if strings.ContainsAny(server, "?#") {
			return "", endpoint{}, &steps.Error{Final: true, Cause: errServerQuery}
		}
	}
	if c.own.url.isSet() {
		from := s
		if c == s.cancel || c == s.onAbort {
			from = s.withoutEmptyOutputs()
		}
		if own, err = from.value(ctx, c.own.url); err != nil {
			return "", endpoint{}, err
		}
	}
	switch {
	case c.server != nil && own == "":
		own = server
	case c.server != nil && strings.HasPrefix(own, "/"):
		own = strings.TrimSuffix(server, "/") + own
	}
	at, err := outbound.ParseURL(own)
	if err != nil {
		return "", endpoint{}, refuse(c.path+".url", err)
	}
	if c.server != nil {
		if there, err := outbound.ParseURL(server); err == nil && at.Origin() == there.Origin() {
			return own, c.endpoint, nil
		}
	}
	return own, c.own, nil
}

// body renders the body of a request.
func (s *session) body(ctx context.Context, c *call, r *outbound.Request) (err error) {
	path, contentType := "", ""
	switch {
	case c.json != nil:
		path, contentType = ".json", "application/json"
		given := make([]string, len(c.secrets))
		for i, t := range c.secrets {
			if given[i], err = s.value(ctx, t); err != nil {
				return err
			}
			if !utf8.ValidString(given[i]) { // JSON would have another value in its place
				return fmt.Errorf("%s: the value of the Secret is no text in UTF-8, and JSON has no other", t.path)
			}
		}
		r.Body, err = c.json.Render(ctx, s.budget, s.vars, given)
	case c.form != nil:
		contentType = "application/x-www-form-urlencoded"
		form := url.Values{}
		for _, f := range c.form {
			value, err := f.value.Render(ctx, s.budget, s.vars)
			if err != nil {
				return refuse(strict.Join(c.path+".form", f.name), err)
			}
			form.Set(f.name, value)
		}
		r.Body = []byte(form.Encode())
	case c.text != nil:
		path, contentType = ".text", "text/plain; charset=utf-8"
		var body string
		body, err = c.text.Render(ctx, s.budget, s.vars)
		r.Body = []byte(body)
	default:
		return nil
	}
	if err != nil {
		return refuse(c.path+path, err)
	}
	r.Header.Set("Content-Type", contentType)
	return nil
}

// withoutEmptyOutputs returns a session for the URL of a clean-up, without outputs that have
// no value: a URL with a gap in it could mean all, and an answer of 404 looks as if nothing
// were left to clean up.
func (s *session) withoutEmptyOutputs() *session {
	other := *s
	outputs := maps.Clone(s.vars["outputs"].(map[string]string))
	maps.DeleteFunc(outputs, func(_, value string) bool { return value == "" })
	other.vars = maps.Clone(s.vars)
	other.setOutputs(outputs)
	return &other
}

// authorize adds the credentials of auth. kept is true for a token from the cache.
func (s *session) authorize(ctx context.Context, a *auth, r *outbound.Request) (token tokenKey, kept bool, err error) {
	if !a.isSet() {
		return token, false, nil
	}
	authorization := ""
	switch {
	case a.bearer.isSet():
		authorization, err = s.value(ctx, a.bearer)
		authorization = "Bearer " + authorization
	case a.tokenURL.isSet():
		if authorization, token, kept, err = s.token(ctx, a, *r); err != nil {
			err = fmt.Errorf("%s: %w", strings.TrimSuffix(a.tokenURL.path, ".tokenURL"), err)
		}
	default:
		var user, password string
		user, password, err = s.pair(ctx, a)
		basic := http.Request{Header: http.Header{}}
		basic.SetBasicAuth(user, password)
		authorization = basic.Header.Get("Authorization")
	}
	r.Header.Set("Authorization", authorization)
	return token, kept, err
}

// pair returns a user's name and password, or a client's id and secret.
func (s *session) pair(ctx context.Context, a *auth) (name, password string, err error) {
	if name, err = s.value(ctx, a.user); err == nil {
		password, err = s.value(ctx, a.password)
	}
	return name, password, err
}

// clean removes the secrets from what an operation says.
func (s *session) clean(p steps.Progress, err error) (steps.Progress, error) {
	redactor := &s.reader.Redactor
	p.Message, p.Waiting = redactor.Text(p.Message), redactor.Text(p.Waiting)
	return p, redactor.Error(err)
}
