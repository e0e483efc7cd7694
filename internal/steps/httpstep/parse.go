package httpstep

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

const (
	defaultRequestTimeout = 10 * time.Second
	maxRequestTimeout     = 5 * time.Minute
	maxOutputs            = 16
	// maxReferences bounds the values of Secrets that a step refers to.
	maxReferences = 32
)

var (
	methods     = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	pollMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost}

	outputPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)
)

// step is a configuration that has been read.
type step struct {
	kind *Kind
	// hosts are those of the preset.
	hosts       outbound.Hosts
	needsStable bool
	// atMostOnce is true with onUnknown: Fail.
	atMostOnce bool

	request, cancel, onAbort *call
	outputs                  []output
	find                     *findCall
	poll                     *pollCall
	message                  *cel.Text
}

// endpoint is a URL, and what is sent to it.
type endpoint struct {
	url     text
	headers []header
	auth    *auth
	// ca refers to an object of the kind caKind; nil for the system's certificates.
	ca     *secret.KeyRef
	caKind string
	// certificate and key are the client's; not set for none.
	certificate *secret.KeyRef
	key         text
}

// over returns an endpoint with what it leaves open taken from the server's.
func (e endpoint) over(server endpoint) endpoint {
	e.headers = slices.Concat(slices.DeleteFunc(slices.Clone(server.headers), func(h header) bool {
		return slices.ContainsFunc(e.headers, func(own header) bool { return own.name == h.name })
	}), e.headers)
	if e.auth == nil {
		e.auth = server.auth
	}
	if e.ca == nil {
		e.ca, e.caKind = server.ca, server.caKind
	}
	if e.certificate == nil {
		e.certificate, e.key = server.certificate, server.key
	}
	return e
}

// call is a request that has been read.
type call struct {
	// path is the key of the request in the configuration.
	path   string
	method string
	// own is what the request has itself, endpoint that over what it takes from the server.
	own, endpoint endpoint
	// server is nil for a request that certainly goes to another host.
	server *endpoint
	json   *cel.JSON
	// secrets are the references in json.
	secrets []text
	form    []field
	text    *cel.Text
	// changes is true for a request whose effect is one more each time it is made.
	changes bool
	// success is nil without successCondition, of which messages show successText.
	success     *cel.Expression
	successText string
	timeout     time.Duration
}

type findCall struct {
	call
	found   *cel.Expression
	outputs []output
}

type pollCall struct {
	call
	success, failure *cel.Expression
	failureText      string
	accept           []int
	outputs          []output
}

// text is a text with expressions, or a reference.
type text struct {
	path string
	text *cel.Text
	// source is the text as it is written; empty for a reference.
	source string
	ref    *secret.KeyRef
	// public is true for a reference to what is no secret.
	public bool
}

func (t text) isSet() bool { return t.text != nil || t.ref != nil }

type header struct {
	name  string
	value text
}

type field struct {
	name  string
	value *cel.Text
}

type output struct {
	path, name string
	value      *cel.Expression
}

// auth has bearer, or user and password, or tokenURL beside user and password (the id and the
// secret of a client of OAuth2), or nothing.
type auth struct {
	bearer, user, password, tokenURL text
	scopes                           []string
}

func (a *auth) isSet() bool { return a != nil && (a.bearer.isSet() || a.password.isSet()) }

// parser reads a configuration. Its methods keep the first error, and go on.
type parser struct {
	secretsNamespace string
	// texts is what texts can refer to, answers what expressions over an answer can.
	texts, answers *cel.Env
	server         *endpoint
	err            error
}

func (p *parser) fail(format string, args ...any) { p.failed(fmt.Errorf(format, args...)) }

// failed keeps an error, unless it is nil.
func (p *parser) failed(err error) {
	if p.err == nil {
		p.err = err
	}
}

func parse(source steps.Source, secretsNamespace string) (*step, error) {
	var c Config
	if err := strict.Decode(source.Config, &c); err != nil {
		return nil, err
	}
	p := &parser{secretsNamespace: secretsNamespace}
	outputs := map[string]string{}
	maps.Copy(outputs, c.Outputs)
	if c.Find != nil {
		for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
			if c.Find.Outputs[name] == "" {
				p.fail("%s: want this output of find too, as outputs has it: otherwise it is missing after a crash", strict.Join("find.outputs", name))
			}
		}
		maps.Copy(outputs, c.Find.Outputs)
	}
	if c.Poll != nil {
		maps.Copy(outputs, c.Poll.Outputs)
	}
	var err error
	declared := cel.Declarations{Outputs: slices.Sorted(maps.Keys(outputs))}
	if p.texts, err = cel.New(declared); err != nil {
		return nil, err
	}
	p.answers = p.texts.WithResponse()
	s := p.step(c)
	s.needsStable = steps.NeedsStable(source.Config)
	references := map[secret.KeyRef]bool{}
	for _, c := range s.calls() {
		for _, t := range c.references() {
			references[*t.ref] = true
		}
	}
	if len(references) > maxReferences {
		p.fail("references to %d values of Secrets: want %d at most", len(references), maxReferences)
	}
	return s, p.err
}

func (p *parser) step(c Config) *step {
	switch {
	case c.Request == nil && c.Poll == nil:
		p.fail("request: want a request, or a poll for a step that only waits")
	case c.Request == nil && c.Find != nil:
		p.fail("find: want a request beside it, which it looks for")
	case c.Request == nil && len(c.Outputs) > 0:
		p.fail("outputs: want a request, whose answer they are of; those of a poll are poll.outputs")
	}
	if c.Server != nil {
		server := p.endpoint("server", *c.Server)
		switch {
		case !server.url.isSet():
			p.fail("server.url: want a URL such as https://ci.example.com/api")
		case strings.ContainsAny(server.url.source, "?#"):
			p.failed(errServerQuery)
		}
		p.server = &server
	}
	s := &step{request: p.call("request", c.Request, methods), outputs: p.outputs("outputs", c.Outputs)}
	if f := c.Find; f != nil {
		s.find = &findCall{call: *p.call("find", &f.Request, pollMethods), found: p.condition("find.found", f.Found), outputs: p.outputs("find.outputs", f.Outputs)}
	}
	if c.Poll != nil {
		s.poll = p.poll(*c.Poll)
	}
	s.cancel, s.onAbort = p.cleanup("cancel", c.Cancel), p.cleanup("onAbort", c.OnAbort)
	if c.Message != "" {
		s.message = read(p, "message", c.Message, p.texts.Text)
	}
	return s
}

var errServerQuery = errors.New("server.url: want a URL without query, which the paths of requests go on from")

// read reads a text or an expression.
func read[T any](p *parser, path, source string, as func(string) (T, error)) T {
	value, err := as(source)
	if err != nil {
		p.fail("%s: %w", path, err)
	}
	return value
}

// condition reads a condition; nil for none.
func (p *parser) condition(path, source string) *cel.Expression {
	if source == "" {
		return nil
	}
	return read(p, path, source, p.answers.Condition)
}

// shown is a condition as a message shows it, which has to have room for the answer.
func shown(condition string) string { return bound.Shorten(bound.Line(condition), maxQuoted) }

func (p *parser) poll(c Poll) *pollCall {
	poll := &pollCall{call: *p.call("poll", &c.Request, pollMethods), failureText: shown(c.FailureCondition), accept: c.Accept}
	if c.FailureCondition != "" && c.SuccessCondition == "" {
		p.fail("poll.successCondition: want one beside failureCondition: without it the work would never end well")
	}
	poll.success = p.condition("poll.successCondition", c.SuccessCondition)
	poll.failure = p.condition("poll.failureCondition", c.FailureCondition)
	for i, status := range c.Accept {
		if status < 300 || status > 499 || slices.Contains(limited, status) {
			p.fail("poll.accept[%d]: want a status such as 404: 2xx is accepted, 408, 425, 429 and 5xx are tried again", i)
		}
	}
	poll.outputs = p.outputs("poll.outputs", c.Outputs)
	return poll
}

func (p *parser) outputs(path string, sources map[string]string) (outputs []output) {
	if len(sources) > maxOutputs {
		p.fail("%s: %d outputs: want %d at most", path, len(sources), maxOutputs)
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		under := strict.Join(path, name)
		switch {
		case !outputPattern.MatchString(name):
			p.fail(`%s: want a name of a letter, then letters, digits and "_", up to 63 in all`, under)
		case sources[name] == "":
			p.fail("%s: want an expression", under)
		}
		outputs = append(outputs, output{under, name, read(p, under, sources[name], p.answers.Output)})
	}
	return outputs
}

// cleanup reads a request that can say why the canary was aborted; nil for none.
func (p *parser) cleanup(path string, r *Request) *call {
	with := *p
	with.texts, with.answers = p.texts.WithAbort(), p.answers.WithAbort()
	c := with.call(path, r, methods)
	p.err = with.err
	return c
}

// call reads a request; nil for none.
func (p *parser) call(path string, r *Request, methods []string) *call {
	if r == nil {
		return nil
	}
	isQuery, method := path == "find" || path == "poll", http.MethodPost
	if isQuery {
		method = http.MethodGet
	}
	c := &call{path: path, method: cmp.Or(r.Method, method), timeout: cmp.Or(r.Timeout.Duration, defaultRequestTimeout)}
	reads := outbound.ReadsOnly(c.method)
	hasJSON := len(r.JSON) > 0 && string(r.JSON) != "null"
	bodies := count(hasJSON, r.Form != nil, r.Text != "")
	switch {
	case !slices.Contains(methods, c.method):
		p.fail("%s.method %q: want one of %s", path, r.Method, strings.Join(methods, ", "))
	case bodies > 1:
		p.fail("%s: want one of json, form and text, not %d", path, bodies)
	case bodies > 0 && reads:
		p.fail("%s.method %s: want one that has a body, such as POST, beside json, form or text", path, c.method)
	case c.timeout < 0 || c.timeout > maxRequestTimeout:
		p.fail("%s.timeout %s: want up to %s", path, c.timeout, maxRequestTimeout)
	case r.URL.IsZero() && p.server == nil:
		p.fail("%s.url: want a URL such as https://ci.example.com/runs", path)
	case r.Idempotent != nil && isQuery:
		p.fail("%s.idempotent: want none: it is repeated anyway", path)
	case r.SuccessCondition != "" && isQuery:
		p.fail("%s.successCondition: want none: found says whether there is something", path)
	}
	isIdempotent := c.method == http.MethodPut || c.method == http.MethodDelete
	if r.Idempotent != nil {
		isIdempotent = *r.Idempotent
	}
	c.changes = !reads && !isQuery && !isIdempotent
	c.own = p.endpoint(path, r.Endpoint)
	c.endpoint = c.own
	if p.server != nil && mayBeAt(c.own.url, p.server.url) {
		c.server, c.endpoint = p.server, c.own.over(*p.server)
	}
	if p.server == nil && strings.HasPrefix(c.own.url.source, "/") {
		p.fail("%s.url: want a whole URL such as https://ci.example.com/runs, or a server that the path goes on from", path)
	}
	for _, h := range c.endpoint.headers {
		if h.name == "Authorization" && c.endpoint.auth.isSet() {
			p.fail("%s: want auth or this header, not both", h.value.path)
		}
	}
	c.success, c.successText = p.condition(path+".successCondition", r.SuccessCondition), shown(r.SuccessCondition)
	if hasJSON {
		p.json(c, r.JSON)
	}
	if r.Text != "" {
		c.text = read(p, path+".text", r.Text, p.texts.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Form)) {
		c.form = append(c.form, field{name, read(p, strict.Join(path+".form", name), r.Form[name], p.texts.Text)})
	}
	return c
}

// count returns how many conditions are true.
func count(conditions ...bool) (n int) {
	for _, is := range conditions {
		if is {
			n++
		}
	}
	return n
}

// mayBeAt tells whether a request may go to the server: its URL is a path, or does not say
// another host.
func mayBeAt(own, server text) bool {
	return own.origin() == "" || server.origin() == "" || own.origin() == server.origin()
}

// origin returns the scheme and the host of a URL; empty if it has none, or an expression or
// a Secret says which.
func (t text) origin() string {
	literal, _, has := strings.Cut(t.source, "{{")
	scheme, rest, absolute := strings.Cut(literal, "://")
	end := strings.IndexAny(rest, "/?#")
	if !absolute || has && end < 0 {
		return ""
	}
	if end >= 0 {
		rest = rest[:end]
	}
	if at, err := outbound.ParseURL(scheme + "://" + rest); err == nil {
		return at.Origin()
	}
	return scheme + "://" + rest
}

// endpoint reads a URL, and what is sent to it.
func (p *parser) endpoint(path string, given Endpoint) (e endpoint) {
	if !given.URL.IsZero() {
		e.url = p.text(path+".url", given.URL, p.texts.URL)
		e.url.public = true // its host is no secret, and readSecrets adds the rest
	}
	for _, name := range slices.Sorted(maps.Keys(given.Headers)) {
		under := strict.Join(path+".headers", name)
		if err := outbound.CheckHeaderName(name); err != nil {
			p.fail("%s: %w", under, err)
		}
		h := header{http.CanonicalHeaderKey(name), p.text(under, given.Headers[name], p.texts.Text)}
		if slices.ContainsFunc(e.headers, func(other header) bool { return other.name == h.name }) {
			p.fail("%s: the header is there twice", under)
		}
		if h.name == "Authorization" && h.value.ref == nil {
			p.fail("%s: want valueFrom, or auth in its place: a secret is given by reference", under)
		}
		e.headers = append(e.headers, h)
	}
	if given.Auth != nil {
		e.auth = p.auth(path+".auth", given.Auth)
	}
	if from := given.ClientCertificateFrom; from != nil {
		under := path + ".clientCertificateFrom"
		if from.SecretRef == nil {
			p.fail("%s: want a secretRef", under)
			return e
		}
		ref := secret.KeyRef{Name: from.SecretRef.Name, Namespace: from.SecretRef.Namespace, Key: "tls.key"}
		e.key = text{path: under, ref: &ref}
		e.certificate = &secret.KeyRef{Name: ref.Name, Namespace: ref.Namespace, Key: "tls.crt"}
		p.failed(ref.Check(under+".secretRef", p.secretsNamespace))
	}
	if from := given.CAFrom; from != nil {
		under := path + ".caFrom"
		switch {
		case (from.SecretKeyRef == nil) == (from.ConfigMapKeyRef == nil):
			p.fail("%s: want one of secretKeyRef and configMapKeyRef", under)
		case from.SecretKeyRef != nil:
			e.ca, e.caKind = from.SecretKeyRef, "Secret"
			p.failed(e.ca.Check(under+".secretKeyRef", p.secretsNamespace))
		default:
			e.ca, e.caKind = from.ConfigMapKeyRef, "ConfigMap"
			p.failed(e.ca.Check(under+".configMapKeyRef", p.secretsNamespace))
		}
	}
	return e
}

// text reads a text, or a reference.
func (p *parser) text(path string, value secret.Value, as func(string) (*cel.Text, error)) text {
	source, ref, err := value.Parse(path, p.secretsNamespace)
	if p.failed(err); err != nil || ref != nil {
		return text{path: path, ref: ref}
	}
	return text{path: path, source: source, text: read(p, path, source, as)}
}

// reference reads a value that has to be a reference.
func (p *parser) reference(path string, value secret.Value) text {
	return p.text(path, value, func(string) (*cel.Text, error) {
		return nil, errors.New("want valueFrom with a secretKeyRef: a secret is given by reference")
	})
}

// public reads a text, or a reference to what is no secret.
func (p *parser) public(path string, value secret.Value) text {
	if value.IsZero() {
		p.fail("%s: want a text", path)
	}
	t := p.text(path, value, p.texts.Text)
	t.public = true
	return t
}

func (p *parser) auth(path string, given *Auth) *auth {
	a := &auth{}
	if several := count(!given.Bearer.IsZero(), given.Basic != nil, given.OAuth2 != nil); several > 1 {
		p.fail("%s: want one of bearer, basic and oauth2, not %d", path, several)
	}
	switch {
	case !given.Bearer.IsZero():
		a.bearer = p.reference(path+".bearer", given.Bearer)
	case given.Basic != nil:
		a.user = p.public(path+".basic.username", given.Basic.Username)
		a.password = p.reference(path+".basic.password", given.Basic.Password)
	case given.OAuth2 != nil:
		path += ".oauth2"
		if given.OAuth2.TokenURL == "" {
			p.fail("%s.tokenURL: want a URL such as https://login.example.com/token", path)
		}
		a.tokenURL = text{path: path + ".tokenURL", source: given.OAuth2.TokenURL, text: read(p, path+".tokenURL", given.OAuth2.TokenURL, p.texts.URL)}
		a.user = p.public(path+".clientID", given.OAuth2.ClientID)
		a.password = p.reference(path+".clientSecret", given.OAuth2.ClientSecret)
		a.scopes = given.OAuth2.Scopes
	}
	return a
}

// calls are the step's requests.
func (s *step) calls() []*call {
	all := []*call{s.request, s.cancel, s.onAbort}
	if s.find != nil {
		all = append(all, &s.find.call)
	}
	if s.poll != nil {
		all = append(all, &s.poll.call)
	}
	return slices.DeleteFunc(all, func(c *call) bool { return c == nil })
}

// references returns the texts of a call that refer to Secrets.
func (c *call) references() []text {
	texts := []text{c.own.url, c.endpoint.key}
	if c.server != nil {
		texts = append(texts, c.server.url)
	}
	if a := c.endpoint.auth; a != nil {
		texts = append(texts, a.bearer, a.user, a.password)
	}
	for _, h := range c.endpoint.headers {
		texts = append(texts, h.value)
	}
	texts = append(texts, c.secrets...)
	return slices.DeleteFunc(texts, func(t text) bool { return t.ref == nil })
}

// confined tells whether a call has a secret that may be sent only to the preset's hosts.
func (c *call) confined() bool {
	return slices.ContainsFunc(c.references(), func(t text) bool { return t.ref.OtherNamespace() })
}

// joins tells whether a call's URL goes on from the server's.
func (c *call) joins() bool {
	return c.server != nil && (!c.own.url.isSet() || strings.HasPrefix(c.own.url.source, "/"))
}

// urls are the URLs that say where a call goes, with its credentials.
func (c *call) urls() []text {
	urls := []text{c.own.url}
	if c.joins() {
		urls[0] = c.server.url
	}
	if a := c.endpoint.auth; a != nil && a.tokenURL.isSet() {
		urls = append(urls, a.tokenURL)
	}
	return urls
}
