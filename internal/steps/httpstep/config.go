package httpstep

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

// Config is the configuration of a step of the kind http: a request, then polls until the
// work that it has started ends. Without a request the step is a gate, which polls alone.
//
// Templates are over rollout, images, hash, services, step, weight, revision, steps (the
// outputs of steps before: {{ .steps.build.outputs.id }}) and outputs (those of this step so
// far: {{ .outputs.id }}). Expressions have the same, and response, the answer:
//
//	status   a number: response.status == 200
//	headers  by name in lower case: response.headers["x-run-id"]
//	json     the body where it is JSON, otherwise nil: response.json.run.id
//	text     the body as a text
//
// An answer of 429 or 5xx and a request without an answer are tried again until the step's
// timeout, after the time of Retry-After where the answer has one. Any other answer but 2xx
// fails the step, or the attempt where there are retries.
type Config struct {
	steps.Settings
	// Request starts the work. It has a header Idempotency-Key, which is the same when it is
	// made again for the same attempt at the step: an outside that honours it does the work
	// once.
	Request *Request `json:"request,omitempty"`
	// Outputs are expressions over the answer to request, by name (a letter, then letters,
	// digits and "_"; 16 at most). Later steps and the step's other requests read them. One
	// that has no value fails the step.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Find is a request that finds what an earlier request of the same attempt has started,
	// by {{ .step.key }} for example. It is made before each request, so that work is
	// started once also where the outside does not know Idempotency-Key; onUnknown then has
	// no meaning.
	Find *Find `json:"find,omitempty"`
	// Poll asks how the work goes. Without it the step succeeds with the answer to request.
	Poll *Poll `json:"poll,omitempty"`
	// Cancel stops running work: after the timeout, on an abort, on a full promotion and
	// after a poll that was refused. An answer of 404, 409 or 410 means that nothing is left
	// to stop. Its Idempotency-Key is that of request with "-cancel".
	Cancel *Request `json:"cancel,omitempty"`
	// OnAbort takes back what a step has done that had succeeded, when its canary is
	// aborted. An answer of 404, 409 or 410 means that nothing is left to take back. Its
	// Idempotency-Key is that of request with "-undo".
	OnAbort *Request `json:"onAbort,omitempty"`
	// Message is a template for what the step waits for, in the Rollout's status and in an
	// Event: "approve at {{ .outputs.url }}". Default: the poll's method and host.
	Message string `json:"message,omitempty"`
}

// Request is a request. Its host is one that the preset allows, or --allow-host.
type Request struct {
	// Method is GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE: POST by default, and GET for
	// find and poll, which take GET, HEAD and POST alone.
	Method string `json:"method,omitempty"`
	// URL is a template, or a reference. With a reference, all of it but the host is kept
	// secret. What a template is given is not escaped, since it may be a whole URL or a path:
	// a preset escapes what an author of Rollouts can set, outputs too, with
	// {{ .outputs.id | urlquery }}. A path with .. in it is refused.
	URL secret.Value `json:"url,omitzero"`
	// Headers are templates or references, by name. Credentials are references: a text for
	// Authorization is refused. Those of the connection (Host, Content-Length …) are not to
	// be set.
	Headers map[string]secret.Value `json:"headers,omitempty"`
	// JSON is the body, each string of which is a template.
	JSON json.RawMessage `json:"json,omitempty"`
	// Text is the body, a template. Its Content-Type is text/plain unless headers say
	// another.
	Text string `json:"text,omitempty"`
	// Auth adds credentials. Those of request are the default for find, poll, cancel and
	// onAbort; {} is none.
	Auth *Auth `json:"auth,omitempty"`
	// CAFrom has the certificates (PEM) of the authorities to trust, in place of the
	// system's. That of request is the default for find, poll, cancel and onAbort.
	CAFrom *CAFrom `json:"caFrom,omitempty"`
	// Timeout bounds the request: 10s by default, 15s at most.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// Auth is one of bearer, basic and oauth2.
type Auth struct {
	// Bearer is a token, by reference.
	Bearer secret.Value `json:"bearer,omitzero"`
	// Basic is a user's name and password.
	Basic *Basic `json:"basic,omitempty"`
	// OAuth2 gets a token with client credentials, and keeps it until it expires.
	OAuth2 *OAuth2 `json:"oauth2,omitempty"`
}

// Basic is a user's name and password.
type Basic struct {
	// Username is a template or a reference.
	Username secret.Value `json:"username"`
	// Password is a reference.
	Password secret.Value `json:"password"`
}

// OAuth2 is a client of OAuth2 with client credentials.
type OAuth2 struct {
	// TokenURL is a template. Its host is an allowed one. Redirects are not followed.
	TokenURL string `json:"tokenURL"`
	// ClientID is a template or a reference.
	ClientID secret.Value `json:"clientID"`
	// ClientSecret is a reference.
	ClientSecret secret.Value `json:"clientSecret"`
	Scopes       []string     `json:"scopes,omitempty"`
}

// CAFrom is one of a Secret's key and a ConfigMap's.
type CAFrom struct {
	SecretKeyRef    *secret.KeyRef `json:"secretKeyRef,omitempty"`
	ConfigMapKeyRef *secret.KeyRef `json:"configMapKeyRef,omitempty"`
}

// Find is a request that finds what an earlier request has started. An answer of 404 means
// that there is nothing.
type Find struct {
	Request
	// Found is an expression over the answer: whether there is something. It is true by
	// default, which is for a URL that has the key in it.
	Found string `json:"found,omitempty"`
	// Outputs are expressions over the answer, in place of those of request: of the same
	// names.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Poll asks how the work goes.
type Poll struct {
	Request
	// Interval is the step's interval by default.
	Interval metav1.Duration `json:"interval,omitzero"`
	// SuccessCondition is an expression: when it is true, the step has succeeded. Without
	// any condition an answer of 2xx is success.
	SuccessCondition string `json:"successCondition,omitempty"`
	// FailureCondition is an expression: when it is true, the step has failed, whatever
	// successCondition is. When neither is true, the work is running.
	FailureCondition string `json:"failureCondition,omitempty"`
	// Accept are statuses such as 404 that do not fail the step: the conditions judge such
	// an answer, and without any the work is running.
	Accept []int `json:"accept,omitempty"`
	// Outputs are expressions over the answer, beside those of request. One that has no value
	// is left out while the work is running, and fails a step that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
}
