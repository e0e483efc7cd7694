package httpstep

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

// Config is the section `http` of a step: a `request`, then polls until the work that it has
// started ends. Without `request` the step is a gate, which polls alone; without `poll` it
// succeeds with the answer to `request`.
//
// Conditions and outputs are CEL, and see the answer as `response`:
//
//	response.status   a number: response.status == 200
//	response.headers  by name in lower case: response.headers["x-run-id"]
//	response.json     the body where it is JSON, otherwise null: response.json.run.id
//	response.text     the body as a text
//
// What may be missing is an optional: `response.json.?state.orValue("none")`. Texts have CEL
// between `{{` and `}}`, and there is no answer in them, but what `outputs` have kept of it.
//
// A rate limit (429, 408, 425, and 403 with `Retry-After` or `x-ratelimit-remaining: 0`) and
// 5xx are waited out until the step's timeout, for as long as the answer asks (an hour at
// most), and so is a request without an answer. Any other answer but 2xx, and one of 2xx of
// which the request's `successCondition` is false, fails the step, or the attempt where there
// are `retries`. Up to 5 redirects are followed, to allowed hosts and not from https to http.
// Bodies have 1 MiB at most, of requests and of answers, and `response.json` has 50,000 values
// at most.
type Config struct {
	// Server is what the step's requests have in common: a URL, which their own URLs go on
	// from, and headers, credentials and certificates, which go to this server alone.
	Server *Endpoint `json:"server,omitempty"`
	// Request starts the work. Its header `Idempotency-Key` is the same when it is made again
	// for the same attempt at the step: an API that honours it does the work once.
	//
	// One that may have been carried out without an answer (a timeout, 5xx) is made three
	// times at most, spread over the step's timeout, unless it is `idempotent` or there is
	// `find`; then the step fails. One that was refused (4xx) has done nothing, and `cancel`
	// does not follow.
	Request *Request `json:"request,omitempty"`
	// Outputs are expressions over the answer to `request`, by name (a letter, then letters,
	// digits and `_`), 16 at most. The step's other requests and later steps read them. One
	// that has no value fails the step, and so does one that holds a secret of the step, since
	// the Rollout's status would show it. One of more than 1 KiB is left out, and those that
	// make more than 2 KiB in all, with an Event `StepOutputDropped`.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Find looks for what an earlier request of the same attempt has started, for example by
	// `{{ step.key }}`. It is made before each `request`, so that work is started once also
	// where the API does not know `Idempotency-Key`, if the API lists it at once.
	Find *Find `json:"find,omitempty"`
	// Poll asks how the work goes, every `interval` of the step.
	Poll *Poll `json:"poll,omitempty"`
	// Cancel stops work that was started or may have been: after a failure or the timeout, on
	// an abort and on a full promotion. Answers of 404, 409 and 410 mean that nothing is left
	// to stop; another 4xx is not tried again, and what stays is in an Event `StepLeftBehind`.
	// Outputs that are not there yet are asked for with `find` and `poll` before; an empty one
	// in the URL is an error, and is tried again. Its `Idempotency-Key` is that of `request`
	// with `-cancel`. Its texts know `abort.reason`: that of `onAbort`, or after a failure or
	// the timeout what has failed; empty on a full promotion.
	Cancel *Request `json:"cancel,omitempty"`
	// OnAbort takes back what the step has done, when its canary is aborted after the step has
	// succeeded. Answers of 404, 409 and 410 mean that nothing is left to take back. Its
	// `Idempotency-Key` is that of `request` with `-undo`.
	//
	// Its texts know `abort.reason`, why the canary was aborted, as far as the Rollout says it
	// by then: which step has failed and with which message, or that the progress deadline has
	// passed. Of an analysis or an experiment it is the name alone. It is empty where it is not
	// known, as when somebody has aborted the canary. It is one line of 1000 bytes at most, and
	// may quote a log or an answer: escape it where it stands in markup.
	OnAbort *Request `json:"onAbort,omitempty"`
	// Message is a text for what the step waits for, in the Rollout's status and in an Event:
	// `approve at {{ outputs.url }}`. Where it has an output of `poll`, it also says why
	// `failureCondition` was true. 400 bytes of it are shown.
	//
	// Default: the method and the host of the last request, and what is missing.
	Message string `json:"message,omitempty"`
}

// Endpoint is a URL of an allowed host, and what is sent to it with each request.
type Endpoint struct {
	// URL is a text, or a reference, of which all but the host is kept secret. Its host is one
	// of the preset or of `--allow-host`. That of a request may be a path, which begins with
	// `/` and goes on from that of `server`.
	//
	// A value in it is escaped for its place, in the path or in the query:
	// `/runs/{{ outputs.id }}`. One at the beginning is a whole URL, and `raw(x)` is taken as
	// it is. An empty one in the path is an error; a path with `.` or `..` between its slashes
	// is refused, and so is a user before the host.
	//
	// Default: for a request that of `server`, otherwise required.
	URL secret.Value `json:"url,omitzero"`
	// Headers are texts or references, by name. Those of the connection (`Host`,
	// `Content-Length` and such) are not to be set, and `Authorization` by reference alone. A
	// request's own are laid over those of `server`.
	Headers map[string]secret.Value `json:"headers,omitempty"`
	// Auth adds credentials; `{}` is none.
	//
	// Default: for a request to `server` the server's.
	Auth *Auth `json:"auth,omitempty"`
	// CAFrom has the certificates (PEM) of the authorities to trust, in place of the system's.
	//
	// Default: for a request to `server` the server's.
	CAFrom *CAFrom `json:"caFrom,omitempty"`
	// ClientCertificateFrom has the certificate with which the step shows who it is (mTLS).
	//
	// Default: for a request to `server` the server's.
	ClientCertificateFrom *ClientCertificateFrom `json:"clientCertificateFrom,omitempty"`
}

// Request is an HTTP request.
type Request struct {
	// Method is `GET`, `HEAD`, `OPTIONS`, `POST`, `PUT`, `PATCH` or `DELETE`; `find` and
	// `poll` take `GET`, `HEAD` and `POST` alone.
	//
	// Default: `POST`, and `GET` for `find` and `poll`.
	Method string `json:"method,omitempty"`
	Endpoint
	// JSON is the body, in which each string is a text. One that is nothing but one expression
	// keeps the expression's type: `revision: '{{ revision }}'` is a number. An object that has
	// `valueFrom` alone is a reference, whose value is a string of the body and is shown
	// nowhere: `routing_key: {valueFrom: {secretKeyRef: {name: pagerduty, key: routing-key}}}`.
	// There is one of `json`, `form` and `text`, and none with `GET`, `HEAD` and `OPTIONS`.
	JSON json.RawMessage `json:"json,omitempty"`
	// Form is the body as a form of HTML (`application/x-www-form-urlencoded`), of texts by
	// name.
	Form map[string]string `json:"form,omitempty"`
	// Text is the body, a text. Its `Content-Type` is `text/plain` unless `headers` say
	// another.
	Text string `json:"text,omitempty"`
	// Idempotent says that the request does the same when it is made twice: it is then made
	// again as often as it takes. It is for `request`, `cancel` and `onAbort`.
	//
	// Default: true for `PUT`, `DELETE` and methods that only read, otherwise false.
	Idempotent *bool `json:"idempotent,omitempty"`
	// SuccessCondition is an expression over an answer of 2xx, for an API that says in its
	// answer whether it has done what was asked: `response.json.ok`. When it is false, the
	// request was refused, as with an answer of 4xx: it has done nothing, so that neither
	// `cancel` nor `onAbort` follows, and a refused `cancel` or `onAbort` is not tried again.
	// Where nothing is left to take back, that is success too:
	// `response.json.ok || response.json.error == "message_not_found"`. Where it has no value,
	// or is false and asks for JSON that the answer does not have, it is not known what the
	// request has done, and `cancel` follows. It is for `request`, `cancel` and `onAbort`.
	//
	// Default: true.
	SuccessCondition string `json:"successCondition,omitempty"`
	// Timeout bounds the request, up to `5m`.
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
	// Username is a text or a reference. It counts as no secret.
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
	// TokenURL is a text. Its host is an allowed one. Redirects are not followed.
	//
	// Required.
	TokenURL string `json:"tokenURL"`
	// ClientID is a text or a reference. It counts as no secret.
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

// ClientCertificateFrom is a Secret with a certificate and its key. It is waited for.
type ClientCertificateFrom struct {
	// SecretRef is a Secret of the type `kubernetes.io/tls`, with `tls.crt` and `tls.key`.
	//
	// Required.
	SecretRef *SecretRef `json:"secretRef"`
}

// SecretRef is a Secret.
type SecretRef struct {
	// Name is the Secret's.
	//
	// Required.
	Name string `json:"name"`
	// Namespace is for presets alone, as in `secretKeyRef`.
	//
	// Default: the Rollout's.
	Namespace string `json:"namespace,omitempty"`
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
	// SuccessCondition is an expression: when it is true, the step has succeeded. Without any
	// condition an answer of 2xx is success.
	SuccessCondition string `json:"successCondition,omitempty"`
	// FailureCondition is an expression: when it is true, the step has failed, whatever
	// `successCondition` is, which has to be there. When neither is true, the work is running.
	FailureCondition string `json:"failureCondition,omitempty"`
	// Accept are statuses of 300 to 499 but those of a rate limit, such as `[404]`, that do
	// not fail the step: the conditions judge such an answer, and without any the work is
	// running.
	Accept []int `json:"accept,omitempty"`
	// Outputs are expressions over the answer, beside those of `request`. One that has no
	// value is left out while the work is running and where it has failed, and fails a step
	// that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
}
