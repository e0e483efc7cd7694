package httpstep

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

// Config is the section `http` of a step: a `request`, then polls until the work that it has
// started ends. Without `request` the step only polls, and so waits for a decision elsewhere.
// Without `poll` the step succeeds with the answer to `request`.
//
// Conditions and outputs are CEL, and see the answer as `response`:
//
//	response.status   a number: response.status == 200
//	response.headers  by name in lower case: response.headers["x-run-id"]
//	response.json     the body where it is JSON, otherwise null: response.json.run.id
//	response.text     the body as a text
//
// A value that may be missing is an optional: `response.json.?state.orValue("none")`. Texts have
// CEL between `{{` and `}}`. They see no answer, only what `outputs` have kept of an answer.
//
// [What happens when](#what-happens-when) says which answers fail a step, and which requests the
// plugin repeats. The plugin follows up to 5 redirects, to allowed hosts and not from https to
// http. Bodies of requests and of answers have 1 MiB at most. `response.json` has 50,000 values
// at most.
type Config struct {
	// Server is what the step's requests have in common: a URL, from which their own URLs go on,
	// and headers, credentials and certificates, which go to this server alone.
	Server *Endpoint `json:"server,omitempty"`
	// Request starts the work. Its header `Idempotency-Key` stays the same when the plugin
	// repeats the request for one attempt at the step. If the request is not `idempotent` and
	// there is no `find`, the plugin makes it three times at most.
	Request *Request `json:"request,omitempty"`
	// Outputs are expressions over the answer to `request`, by name (a letter, then letters,
	// digits and `_`), 16 at most. The step's other requests and later steps read them. An
	// output without a value fails the step, and so does an output that holds a secret of the
	// step. The plugin leaves out outputs of more than 1 KiB, or beyond 2 KiB in all, with an
	// Event `StepOutputDropped`.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Find searches for what an earlier request of the same attempt has started, for example by
	// `{{ step.key }}`. The plugin searches before each `request`. So an API without
	// `Idempotency-Key` does the work once, too, if it lists the work at once.
	Find *Find `json:"find,omitempty"`
	// Poll asks for the state of the work, every `interval` of the step.
	Poll *Poll `json:"poll,omitempty"`
	// Cancel stops work that was started or may have been: after a failure or the timeout, on an
	// abort and on a full promotion. Answers of 404, 409 and 410 mean that nothing is left to
	// stop. After another 4xx the plugin does not try again, and an Event `StepLeftBehind` says
	// what stays. Before a `cancel` the plugin asks `find` and `poll` for outputs that are
	// missing. An empty output in the URL is an error, after which the plugin tries again. The
	// `Idempotency-Key` is that of `request` with `-cancel`.
	//
	// Its texts know `abort.reason`: that of `onAbort`, or after a failure or the timeout what
	// has failed; empty on a full promotion.
	Cancel *Request `json:"cancel,omitempty"`
	// OnAbort undoes what the step has done, when its canary is aborted after the step has
	// succeeded. Answers of 404, 409 and 410 mean that nothing is left to undo. The
	// `Idempotency-Key` is that of `request` with `-undo`.
	//
	// Its texts know `abort.reason`, why the canary was aborted, as far as the Rollout says so
	// by then. The reason is the step that has failed with its message, the passed progress
	// deadline, or the name alone of an analysis or an experiment. It is empty where it is not
	// known, as when somebody has aborted the canary. It is one line of 1000 bytes at most. It
	// may quote a log or an answer, so escape it in markup.
	OnAbort *Request `json:"onAbort,omitempty"`
	// Message is a text for what the step waits for, in the Rollout's status and in an Event:
	// `approve at {{ outputs.url }}`. With an output of `poll` in it, it also says why
	// `failureCondition` was true. The first 400 bytes are shown.
	//
	// Default: the method and the host of the last request, and what is missing.
	Message string `json:"message,omitempty"`
}

// Endpoint is a URL of an allowed host, and what each request sends to it.
type Endpoint struct {
	// URL is a text, or a reference. Of a reference all but the host is kept secret. Its host is
	// an allowed one, of the preset or of `--allow-host`. The URL of a request may be a path,
	// which begins with `/` and goes on from the URL of `server`.
	//
	// The plugin escapes a value in the path or in the query: `/runs/{{ outputs.id }}`. It takes
	// a value at the beginning as a whole URL, and `raw(x)` as it is. An empty value in the path
	// is an error. The plugin refuses a path with `.` or `..` between its slashes, and a user
	// before the host.
	//
	// Default: for a request that of `server`, otherwise required.
	URL secret.Value `json:"url,omitzero"`
	// Headers are texts or references, by name. `Authorization` takes a reference alone. Headers
	// of the connection (`Host`, `Content-Length` and such) are not allowed. A request's own
	// headers replace those of `server`.
	Headers map[string]secret.Value `json:"headers,omitempty"`
	// Auth adds credentials; `{}` is none.
	//
	// Default: for a request to `server` the server's.
	Auth *Auth `json:"auth,omitempty"`
	// CAFrom has the certificates (PEM) of the authorities to trust, in place of the system's.
	//
	// Default: for a request to `server` the server's.
	CAFrom *CAFrom `json:"caFrom,omitempty"`
	// ClientCertificateFrom has the certificate by which the server knows the step (mTLS).
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
	// JSON is the body, in which each string is a text. A text that is nothing but one
	// expression keeps the expression's type: `revision: '{{ revision }}'` is a number. An
	// object that has `valueFrom` alone is a reference, whose value is a string of the body and
	// is shown nowhere: `routing_key: {valueFrom: {secretKeyRef: {name: pagerduty, key:
	// routing-key}}}`. A request has one of `json`, `form` and `text`, and with `GET`, `HEAD`
	// and `OPTIONS` none.
	JSON json.RawMessage `json:"json,omitempty"`
	// Form is the body as a form of HTML (`application/x-www-form-urlencoded`), of texts by
	// name.
	Form map[string]string `json:"form,omitempty"`
	// Text is the body, a text. Its `Content-Type` is `text/plain` unless `headers` say another.
	Text string `json:"text,omitempty"`
	// Idempotent says that a repeated request does no more than the first. The plugin then
	// repeats it until the step's timeout. It is for `request`, `cancel` and `onAbort`.
	//
	// Default: true for `PUT`, `DELETE` and methods that only read, otherwise false.
	Idempotent *bool `json:"idempotent,omitempty"`
	// SuccessCondition is an expression over an answer of 2xx, for an API whose answer says
	// whether it has done the work: `response.json.ok`. If it is false, the request was
	// refused, as with an answer of 4xx. The request has then done nothing: neither `cancel`
	// nor `onAbort` follows, and the plugin does not repeat a refused `cancel` or `onAbort`. In
	// these, "nothing is left" is success too:
	// `response.json.ok || response.json.error == "message_not_found"`. If the condition has no
	// value, the plugin does not know what the request has done, and `cancel` follows. The same
	// is true if it is false and asks for JSON that the answer does not have. It is for
	// `request`, `cancel` and `onAbort`.
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

// OAuth2 is a client of OAuth2 with client credentials. The plugin keeps its token until it
// expires.
type OAuth2 struct {
	// TokenURL is a text. Its host is an allowed one. The plugin follows no redirect of it.
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
	// Scopes are the scopes that the client asks for.
	Scopes []string `json:"scopes,omitempty"`
}

// CAFrom is a key of a Secret or of a ConfigMap. The step waits for an object that does not
// exist.
type CAFrom struct {
	// SecretKeyRef is the key of a Secret.
	SecretKeyRef *secret.KeyRef `json:"secretKeyRef,omitempty"`
	// ConfigMapKeyRef is the key of a ConfigMap.
	ConfigMapKeyRef *secret.KeyRef `json:"configMapKeyRef,omitempty"`
}

// ClientCertificateFrom is a Secret with a certificate and its key. The step waits for a Secret
// that does not exist.
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

// Find is a request that finds what an earlier request has started. An answer of 404 means that
// there is nothing.
type Find struct {
	Request
	// Found is an expression over the answer: whether there is something.
	//
	// Default: true, which is for a URL that has the key in it.
	Found string `json:"found,omitempty"`
	// Outputs are expressions over the answer, in place of those over the answer to `request`.
	// It has all of their names.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// Poll is a request for the state of the work.
type Poll struct {
	Request
	// SuccessCondition is an expression: when it is true, the step has succeeded. Without any
	// condition an answer of 2xx is success.
	SuccessCondition string `json:"successCondition,omitempty"`
	// FailureCondition is an expression: when it is true, the step has failed, whatever
	// `successCondition` says. It needs a `successCondition`. When neither is true, the work is
	// running.
	FailureCondition string `json:"failureCondition,omitempty"`
	// Accept are further statuses that do not fail the step, such as `[404]`: 300 to 499, without
	// 408, 425 and 429. The conditions judge such an answer. Without conditions the work is
	// running.
	Accept []int `json:"accept,omitempty"`
	// Outputs are expressions over the answer, beside those of `request`. The plugin leaves out
	// an output without a value while the work runs, and when it has failed. Such an output
	// fails a step that would succeed.
	Outputs map[string]string `json:"outputs,omitempty"`
}
