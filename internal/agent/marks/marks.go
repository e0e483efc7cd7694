// Package marks has the names by which the agent marks what it writes, and under which it is
// installed. It imports nothing, so that programs that look for the marks stay small.
package marks

const (
	// Agent is the name of the agent's Deployment and MutatingWebhookConfiguration, and the
	// component of its Events.
	Agent = "kedify-agent"

	// Finalizer is on each HTTPScaledObject of the agent's.
	Finalizer = "http.kedify.io/agent"

	// Adopt is an annotation of an HTTPScaledObject that is handed over to the agent.
	Adopt = "http.kedify.io/adopt"
	// NotWired is an annotation of an HTTPScaledObject whose requests pass no proxy yet. It
	// says why.
	NotWired = "http.kedify.io/not-wired"
	// LeftAlone is an annotation of an Ingress: until when the agent leaves it alone.
	LeftAlone = "http.kedify.io/left-alone-until"

	// ProxyService is the Service of the kedify-proxies of a namespace.
	ProxyService = "kedify-proxy"
	// ProxyPort is its port for requests.
	ProxyPort = 8080
)
