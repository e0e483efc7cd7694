package httpstep

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/template"
)

const (
	defaultRequestTimeout = 10 * time.Second
	maxRequestTimeout     = 15 * time.Second
	maxOutputs            = 16
	// maxReferences bounds the values of Secrets that a step refers to.
	maxReferences = 32
)

var (
	methods     = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	readMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost}

	outputPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)
)

// step is a configuration that has been read.
type step struct {
	kind     *Kind
	settings steps.Settings
	// hosts are those of the preset.
	hosts       outbound.Hosts
	needsStable bool

	request, cancel, onAbort *call
	outputs                  []output
	find                     *findCall
	poll                     *pollCall
	message                  *template.Template
}

// call is a request that has been read.
type call struct {
	// path is the key of the request in the configuration.
	path   string
	method string
	url    text
	// origins are the beginnings of url and tokenURL that no template can change, if they
	// include the host.
	origins []origin
	headers []header
	json    *template.JSON
	text    *template.Template
	auth    auth
	// ca refers to an object of the kind caKind; nil for the system's certificates.
	ca      *secret.KeyRef
	caKind  string
	timeout time.Duration
}

// origin is the beginning of a URL in the configuration.
type origin struct{ path, url string }

type findCall struct {
	call
	found   *overAnswer
	outputs []output
}

type pollCall struct {
	call
	success, failure *overAnswer
	failureText      string
	accept           []int
	outputs          []output
}

// text is a template or a reference.
type text struct {
	path     string
	template *template.Template
	ref      *secret.KeyRef
}

func (t text) isSet() bool { return t.template != nil || t.ref != nil }

type header struct {
	name  string
	value text
}

type output struct {
	path, name string
	value      *overAnswer
}

// auth has bearer, or user and password, or the fields of OAuth2 after them, or none.
type auth struct {
	bearer         text
	user, password text
	tokenURL       *template.Template
	id, secret     text
	scopes         []string
}

// parser reads a configuration.
type parser struct {
	secretsNamespace string
	// known are the names of the step's outputs.
	known []string
}

func parse(config json.RawMessage, secretsNamespace string) (*step, error) {
	var c Config
	if err := strict.Decode(config, &c); err != nil {
		return nil, err
	}
	p := parser{secretsNamespace: secretsNamespace, known: outputNames(c)}
	switch {
	case c.Request == nil && c.Poll == nil:
		return nil, errors.New("request: want a request, or a poll for a step that only waits")
	case c.Request == nil && c.Find != nil:
		return nil, errors.New("find: want a request beside it, which it looks for")
	case c.Request == nil && len(c.Outputs) > 0:
		return nil, errors.New("outputs: want a request, whose answer they are of; those of a poll are poll.outputs")
	case c.Find != nil && c.OnUnknown == steps.OnUnknownFail:
		return nil, errors.New("onUnknown: Fail has no meaning beside find, which looks whether the work was started")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
		if c.Find != nil && c.Find.Outputs[name] == "" {
			return nil, fmt.Errorf("%s: want this output of find too, as outputs has it: otherwise it is missing after a crash", strict.Join("find.outputs", name))
		}
	}
	s := &step{settings: c.Settings, needsStable: steps.NeedsStable(config)}
	if c.Request == nil {
		s.settings.OnUnknown = "" // A gate starts nothing.
	}
	var err error
	if s.request, err = p.call("request", c.Request, nil, methods); err != nil {
		return nil, err
	}
	if s.outputs, err = p.outputs("outputs", c.Outputs); err != nil {
		return nil, err
	}
	if s.find, err = p.find(c.Find, c.Request); err != nil {
		return nil, err
	}
	if s.poll, err = p.poll(c.Poll, c.Request); err != nil {
		return nil, err
	}
	if c.Poll != nil && c.Poll.Interval.Duration != 0 {
		s.settings.Interval = c.Poll.Interval
		if err := (steps.Settings{Interval: c.Poll.Interval}).Validate(); err != nil {
			return nil, fmt.Errorf("poll.%w", err)
		}
	}
	if s.cancel, err = p.call("cancel", c.Cancel, c.Request, methods); err != nil {
		return nil, err
	}
	if s.onAbort, err = p.call("onAbort", c.OnAbort, c.Request, methods); err != nil {
		return nil, err
	}
	if c.Message != "" {
		if s.message, err = p.template("message", c.Message); err != nil {
			return nil, err
		}
	}
	references := map[secret.KeyRef]bool{}
	for _, c := range s.calls() {
		for _, t := range c.secrets() {
			references[*t.ref] = true
		}
	}
	if len(references) > maxReferences {
		return nil, fmt.Errorf("references to %d values of Secrets: want %d at most", len(references), maxReferences)
	}
	return s, nil
}

func (p parser) find(f *Find, request *Request) (*findCall, error) {
	if f == nil {
		return nil, nil
	}
	c, err := p.call("find", &f.Request, request, readMethods)
	if err != nil {
		return nil, err
	}
	find := &findCall{call: *c}
	if find.found, err = p.expression("find.found", f.Found); err != nil {
		return nil, err
	}
	find.outputs, err = p.outputs("find.outputs", f.Outputs)
	return find, err
}

func (p parser) poll(c *Poll, request *Request) (*pollCall, error) {
	if c == nil {
		return nil, nil
	}
	read, err := p.call("poll", &c.Request, request, readMethods)
	if err != nil {
		return nil, err
	}
	if c.FailureCondition != "" && c.SuccessCondition == "" {
		return nil, errors.New("poll.successCondition: want one beside failureCondition: without it the work would never end well")
	}
	poll := &pollCall{call: *read, failureText: c.FailureCondition, accept: c.Accept}
	if poll.success, err = p.expression("poll.successCondition", c.SuccessCondition); err != nil {
		return nil, err
	}
	if poll.failure, err = p.expression("poll.failureCondition", c.FailureCondition); err != nil {
		return nil, err
	}
	for i, status := range c.Accept {
		if status < 300 || status > 499 || status == http.StatusTooManyRequests {
			return nil, fmt.Errorf("poll.accept[%d]: want a status such as 404: 2xx is accepted, 429 and 5xx are tried again", i)
		}
	}
	poll.outputs, err = p.outputs("poll.outputs", c.Outputs)
	return poll, err
}

func (p parser) outputs(path string, texts map[string]string) ([]output, error) {
	if len(texts) > maxOutputs {
		return nil, fmt.Errorf("%s: %d outputs: want %d at most", path, len(texts), maxOutputs)
	}
	var outputs []output
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		under := strict.Join(path, name)
		if !outputPattern.MatchString(name) {
			return nil, fmt.Errorf(`%s: want a name of a letter, then letters, digits and "_", up to 63 in all`, under)
		}
		value, err := p.expression(under, texts[name])
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, fmt.Errorf("%s: want an expression", under)
		}
		outputs = append(outputs, output{under, name, value})
	}
	return outputs, nil
}

// call reads a request. auth and caFrom default to those of defaults.
func (p parser) call(path string, r, defaults *Request, methods []string) (*call, error) {
	if r == nil {
		return nil, nil
	}
	c := &call{path: path, method: r.Method, timeout: r.Timeout.Duration}
	if c.method == "" {
		c.method = http.MethodPost
		if slices.Equal(methods, readMethods) {
			c.method = http.MethodGet
		}
	}
	withBody := c.method != http.MethodGet && c.method != http.MethodHead && c.method != http.MethodOptions
	hasJSON := len(r.JSON) > 0 && string(r.JSON) != "null"
	switch {
	case !slices.Contains(methods, c.method):
		return nil, fmt.Errorf("%s.method %q: want one of %s", path, r.Method, strings.Join(methods, ", "))
	case hasJSON && r.Text != "":
		return nil, fmt.Errorf("%s.text: want json or text, not both", path)
	case (hasJSON || r.Text != "") && !withBody:
		return nil, fmt.Errorf("%s.method %s: want one that has a body, such as POST, beside json or text", path, c.method)
	case c.timeout < 0 || c.timeout > maxRequestTimeout:
		return nil, fmt.Errorf("%s.timeout %s: want up to %s", path, c.timeout, maxRequestTimeout)
	case r.URL.IsZero():
		return nil, fmt.Errorf("%s.url: want a URL such as https://ci.example.com/runs", path)
	}
	if c.timeout == 0 {
		c.timeout = defaultRequestTimeout
	}
	var err error
	if c.url, err = p.text(path+".url", r.URL); err != nil {
		return nil, err
	}
	if source, ref, err := r.URL.Parse("", p.secretsNamespace); err == nil && ref == nil {
		c.origins = append(c.origins, originOf(c.url.path, source)...)
	}
	if hasJSON {
		if c.json, err = template.ParseJSON(r.JSON); err != nil {
			return nil, fmt.Errorf("%s.json: %w", path, err)
		}
		if err := p.referencesIn(path+".json", decode(r.JSON)); err != nil {
			return nil, err
		}
	}
	if r.Text != "" {
		if c.text, err = p.template(path+".text", r.Text); err != nil {
			return nil, err
		}
	}
	given, ca, from := r.Auth, r.CAFrom, path
	if defaults != nil && given == nil {
		given, from = defaults.Auth, "request"
	}
	if c.auth, err = p.auth(from+".auth", given); err != nil {
		return nil, err
	}
	if given != nil && given.OAuth2 != nil {
		c.origins = append(c.origins, originOf(from+".auth.oauth2.tokenURL", given.OAuth2.TokenURL)...)
	}
	from = path
	if defaults != nil && ca == nil {
		ca, from = defaults.CAFrom, "request"
	}
	if err := p.ca(c, from+".caFrom", ca); err != nil {
		return nil, err
	}
	return c, p.headers(c, r.Headers)
}

// originOf returns the beginning of a URL up to its path; none if a template can change it.
func originOf(path, source string) []origin {
	literal, _, has := strings.Cut(source, "{{")
	if !has {
		return []origin{{path, source}}
	}
	scheme, rest, _ := strings.Cut(literal, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		return nil
	}
	return []origin{{path, scheme + "://" + rest[:end]}}
}

func (p parser) headers(c *call, values map[string]secret.Value) error {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := strict.Join(c.path+".headers", name)
		if err := outbound.CheckHeaderName(name); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		canonical := http.CanonicalHeaderKey(name)
		if seen[canonical] {
			return fmt.Errorf("%s: the header is there twice", path)
		}
		seen[canonical] = true
		value, err := p.text(path, values[name])
		if err != nil {
			return err
		}
		if canonical == "Authorization" {
			switch {
			case c.auth.isSet():
				return fmt.Errorf("%s: want auth or this header, not both", path)
			case value.ref == nil:
				return fmt.Errorf("%s: want valueFrom, or auth in its place: a secret is given by reference", path)
			}
		}
		c.headers = append(c.headers, header{canonical, value})
	}
	return nil
}

func (p parser) text(path string, value secret.Value) (text, error) {
	source, ref, err := value.Parse(path, p.secretsNamespace)
	if err != nil {
		return text{}, err
	}
	if ref != nil {
		return text{path: path, ref: ref}, nil
	}
	parsed, err := p.template(path, source)
	return text{path: path, template: parsed}, err
}

// reference reads a value that has to be a reference.
func (p parser) reference(path string, value secret.Value) (text, error) {
	if value.IsZero() {
		return text{}, fmt.Errorf("%s: want valueFrom with a secretKeyRef", path)
	}
	_, ref, err := value.Parse(path, p.secretsNamespace)
	switch {
	case err != nil:
		return text{}, err
	case ref == nil:
		return text{}, fmt.Errorf("%s: want valueFrom with a secretKeyRef: a secret is given by reference", path)
	}
	return text{path: path, ref: ref}, nil
}

func (a auth) isSet() bool {
	return a.bearer.isSet() || a.password.isSet() || a.tokenURL != nil
}

func (p parser) auth(path string, given *Auth) (a auth, err error) {
	if given == nil {
		return a, nil
	}
	several := 0
	for _, is := range []bool{!given.Bearer.IsZero(), given.Basic != nil, given.OAuth2 != nil} {
		if is {
			several++
		}
	}
	if several > 1 {
		return a, fmt.Errorf("%s: want one of bearer, basic and oauth2, not %d", path, several)
	}
	switch {
	case !given.Bearer.IsZero():
		a.bearer, err = p.reference(path+".bearer", given.Bearer)
	case given.Basic != nil:
		path += ".basic"
		if given.Basic.Username.IsZero() {
			return a, fmt.Errorf("%s.username: want a name", path)
		}
		if a.user, err = p.text(path+".username", given.Basic.Username); err != nil {
			return a, err
		}
		a.password, err = p.reference(path+".password", given.Basic.Password)
	case given.OAuth2 != nil:
		path += ".oauth2"
		if given.OAuth2.TokenURL == "" || given.OAuth2.ClientID.IsZero() {
			return a, fmt.Errorf("%s: want tokenURL, clientID and clientSecret", path)
		}
		if a.tokenURL, err = p.template(path+".tokenURL", given.OAuth2.TokenURL); err != nil {
			return a, err
		}
		if a.id, err = p.text(path+".clientID", given.OAuth2.ClientID); err != nil {
			return a, err
		}
		a.scopes = given.OAuth2.Scopes
		a.secret, err = p.reference(path+".clientSecret", given.OAuth2.ClientSecret)
	}
	return a, err
}

func (p parser) ca(c *call, path string, from *CAFrom) error {
	switch {
	case from == nil:
		return nil
	case from.SecretKeyRef != nil && from.ConfigMapKeyRef != nil, from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil:
		return fmt.Errorf("%s: want one of secretKeyRef and configMapKeyRef", path)
	case from.SecretKeyRef != nil:
		c.ca, c.caKind = from.SecretKeyRef, "Secret"
		return c.ca.Check(path+".secretKeyRef", p.secretsNamespace)
	default:
		c.ca, c.caKind = from.ConfigMapKeyRef, "ConfigMap"
		return c.ca.Check(path+".configMapKeyRef", p.secretsNamespace)
	}
}

// secrets returns the texts of a call that are references.
func (c *call) secrets() []text {
	texts := []text{c.url, c.auth.bearer, c.auth.user, c.auth.password, c.auth.id, c.auth.secret}
	for _, h := range c.headers {
		texts = append(texts, h.value)
	}
	return slices.DeleteFunc(texts, func(t text) bool { return t.ref == nil })
}

// confined tells whether a call has a secret that may be sent only to the preset's hosts.
func (c *call) confined() bool {
	return slices.ContainsFunc(c.secrets(), func(t text) bool { return t.ref.Elsewhere() })
}
