package httpstep

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

// Config is the configuration of a step that makes HTTP requests: a `request`, then polls
// until the work that it has started ends. Without `request` the step is a gate, which polls
// alone; without `poll` it succeeds with the answer to `request`.
//
// Conditions and outputs are expressions, which see the answer as `response`:
//
//	response.status   a number: response.status == 200
//	response.headers  by name in lower case: response.headers["x-run-id"]
//	response.json     the body where it is JSON, otherwise nil: response.json.run.id
//	response.text     the body as a text
//
// An answer of 429 or 5xx and a request without an answer are tried again until the step's
// timeout, after the time of Retry-After (an hour at most) where the answer has one. Any other
// answer but 2xx fails the step, or the attempt where there are `retries`. Up to 5 redirects
// are followed, to allowed hosts and not from https to http. Bodies have 1 MiB at most, of
// requests and of answers, and `response.json` has 50,000 values at most.
type Config struct {
	steps.Settings
	// Request starts the work. Its header `Idempotency-Key` is the same when it is made again
	// for the same attempt at the step: an outside that honours it does the work once.
	Request *Request `json:"request,omitempty"`
	// Outputs are expressions over the answer to `request`, by name (a letter, then letters,
	// digits and `_`), 16 at most. The step's other requests and later steps read them. One
	// that has no value fails the step. One of more than 1 KiB is left out, and those that
	// make more than 2 KiB in all, with an Event `StepOutputDropped`.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Find looks for what an earlier request of the same attempt has started, for example by
	// `{{ .step.key }}`. It is made before each `request`, so that work is started once also
	// where the outside does not know `Idempotency-Key`.
	Find *Find `json:"find,omitempty"`
	// Poll asks how the work goes.
	Poll *Poll `json:"poll,omitempty"`
	// Cancel stops running work: after a failure or the timeout, on an abort and on a full
	// promotion. Answers of 404, 409 and 410 mean that nothing is left to stop. Outputs that
	// are not there yet are asked for with `find` and `poll` before; an empty one in the URL is
	// an error, and is tried again. Its `Idempotency-Key` is that of `request` with `-cancel`.
	Cancel *Request `json:"cancel,omitempty"`
	// OnAbort takes back what the step has done, when its canary is aborted after the step has
	// succeeded. Answers of 404, 409 and 410 mean that nothing is left to take back. Its
	// `Idempotency-Key` is that of `request` with `-undo`.
	OnAbort *Request `json:"onAbort,omitempty"`
	// Message is a template for what the step waits for, in the Rollout's status and in an
	// Event: `approve at {{ .outputs.url }}`. 400 bytes of it are shown.
	//
	// Default: the method and the host of the last request, and what is missing.
	Message string `json:"message,omitempty"`
}

// Request is an HTTP request to an allowed host.
type Request struct {
	// Method is `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH` or `DELETE`; `find` and
	// `poll` take `GET`, `HEAD` and `POST` alone.
	//
	// Default: `POST`, and `GET` for `find` and `poll`.
	Method string `json:"method,omitempty"`
	// URL is a template, or a reference, of which all but the host is kept secret. Its host is
	// one of the preset or of `--allow-host`. What a template puts in is not escaped, since it
	// may be a whole URL: escape a part with `{{ .outputs.id | urlquery }}`, in a preset each
	// that the author of a Rollout can choose, outputs too. A path with `.` or `..` between
	// its slashes is refused, and so is a user before the host.
	//
	// Required.
	URL secret.Value `json:"url,omitzero"`
	// Headers are templates or references, by name. Those of the connection (`Host`,
	// `Content-Length` and such) are not to be set, and `Authorization` by reference alone.
	Headers map[string]secret.Value `json:"headers,omitempty"`
	// JSON is the body, in which each string is a template. There is `json` or `text`, and
	// neither with `GET`, `HEAD` and `OPTIONS`.
	JSON json.RawMessage `json:"json,omitempty"`
	// Text is the body, a template. Its `Content-Type` is `text/plain` unless `headers` say
	// another.
	Text string `json:"text,omitempty"`
	// Auth adds credentials; `{}` is none.
	//
	// Default: for `find`, `poll`, `cancel` and `onAbort` that of `request`.
	Auth *Auth `json:"auth,omitempty"`
	// CAFrom has the certificates (PEM) of the authorities to trust, in place of the system's.
	//
	// Default: for `find`, `poll`, `cancel` and `onAbort` that of `request`.
	CAFrom *CAFrom `json:"caFrom,omitempty"`
	// Timeout bounds the request, up to `15s`.
	//
	// Default: `10s`.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// Auth is one of `bearer`, `basic` and `oauth2`.
type Auth struct {
	// Bearer is a token, by reference.
	Bearer secret.Value `json:"bearer,omitzero"`
	// Basic is a user's name and password.
	Basic *Basic `json:"basic,omitempty"`
	// OAuth2 gets a token with client credentials.
	OAuth2 *OAuth2 `json:"oauth2,omitempty"`
}

// Basic is a user's name and password.
type Basic struct {
	// Username is a template or a reference.
	//
	// Required.
	Username secret.Value `json:"username"`
	// Password is a reference.
	//
	// Required.
	Password secret.Value `json:"password"`
}

// OAuth2 is a client of OAuth2 with client credentials. Its token is kept until it expires.
type OAuth2 struct {
	// TokenURL is a template. Its host is an allowed one. Redirects are not followed.
	//
	// Required.
	TokenURL string `json:"tokenURL"`
	// ClientID is a template or a reference.
	//
	// Required.
	ClientID secret.Value `json:"clientID"`
	// ClientSecret is a reference.
	//
	// Required.
	ClientSecret secret.Value `json:"clientSecret"`
	// Scopes are what is asked for.
	Scopes []string `json:"scopes,omitempty"`
}

// CAFrom is one of a Secret's key and a ConfigMap's. An object that does not exist is waited
// for.
type CAFrom struct {
	// SecretKeyRef is the key of a Secret.
	SecretKeyRef *secret.KeyRef `json:"secretKeyRef,omitempty"`
	// ConfigMapKeyRef is the key of a ConfigMap.
	ConfigMapKeyRef *secret.KeyRef `json:"configMapKeyRef,omitempty"`
}

// Find is a request that finds what an earlier one has started. An answer of 404 means that
// there is nothing.
type Find struct {
	Request
	// Found is an expression over the answer: whether there is something.
	//
	// Default: true, which is for a URL that has the key in it.
	Found string `json:"found,omitempty"`
	// Outputs are expressions over the answer, in place of those of `request`: it has all of
	// their names.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Poll is a request that asks how the work goes.
type Poll struct {
	Request
	// Interval is how often the work is asked after, `11s` or more. Argo Rollouts adds 5 s.
	//
	// Default: the step's `interval`.
	Interval metav1.Duration `json:"interval,omitzero"`
	// SuccessCondition is an expression: when it is true, the step has succeeded. Without any
	// condition an answer of 2xx is success.
	SuccessCondition string `json:"successCondition,omitempty"`
	// FailureCondition is an expression: when it is true, the step has failed, whatever
	// `successCondition` is, which has to be there. When neither is true, the work is running.
	FailureCondition string `json:"failureCondition,omitempty"`
	// Accept are statuses of 300 to 499 but 429, such as `[404]`, that do not fail the step:
	// the conditions judge such an answer, and without any the work is running.
	Accept []int `json:"accept,omitempty"`
	// Outputs are expressions over the answer, beside those of `request`. One that has no
	// value is left out while the work is running, and fails a step that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
}
