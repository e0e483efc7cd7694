package routes

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Reason is a kind of Problem, in the form of the reason of an Event.
type Reason string

// The reasons of Problems that quarantine an object: it keeps its last good form,
// or is left out when there is none.
const (
	// InvalidHost says on an HTTPScaledObject that an entry of `spec.hosts` is no host. The
	// proxies serve the last good form of the object, or nothing if there was none.
	InvalidHost Reason = "InvalidHost"
	// InvalidPathPrefix says on an HTTPScaledObject that an entry of `spec.pathPrefixes` is no
	// path. The proxies serve the last good form of the object, or nothing if there was none.
	InvalidPathPrefix Reason = "InvalidPathPrefix"
	// InvalidHeader says on an HTTPScaledObject that an entry of `spec.headers` is no header, or
	// cannot choose an object. The proxies serve the last good form of the object, or nothing if
	// there was none.
	InvalidHeader Reason = "InvalidHeader"
	// InvalidTarget says on an HTTPScaledObject that `spec.scaleTargetRef` names no Service, or
	// not exactly one of `port` and `portName`. The proxies serve the last good form of the
	// object, or nothing if there was none.
	InvalidTarget Reason = "InvalidTarget"
	// TooLarge says on an HTTPScaledObject that the object has more hosts, paths and headers than
	// one object may have. The proxies serve the last good form of the object, or nothing if there
	// was none.
	TooLarge Reason = "TooLarge"
	// OverBudget says on an HTTPScaledObject that there is [no room for its
	// hosts](../how-to/tenants.md#bound-what-a-namespace-may-have) in its namespace, or for its
	// wildcards. The proxies leave the object out, whatever they served before. If the bound for
	// all namespaces together is the reason, only proxies of many namespaces leave it out.
	OverBudget Reason = "OverBudget"
	// InternalError says on an HTTPScaledObject that the interceptor itself fails at the object,
	// and its log says more. All proxies, or the kedify-proxy that the Event names, serve the last
	// good form of the object, or nothing if there was none. All other objects go on. Please
	// report it.
	InternalError Reason = "InternalError"
)

// The reasons of Problems that leave an object in the table as it is.
const (
	// Repeated says on an HTTPScaledObject that an entry of `spec.hosts`, `spec.pathPrefixes` or
	// `spec.headers` is in its list twice. It counts once.
	Repeated Reason = "Repeated"
	// InvalidTimeout says on an HTTPScaledObject that a timeout is no duration. The proxies serve
	// the object with the interceptor's own timeout.
	InvalidTimeout Reason = "InvalidTimeout"
	// InvalidFailover says on an HTTPScaledObject that `spec.coldStartTimeoutFailoverRef` cannot
	// be served, or has a wrong timeout. The proxies serve the object without that entry.
	InvalidFailover Reason = "InvalidFailover"
	// InvalidSplit says on an HTTPScaledObject that the annotation with the split cannot be read.
	// The proxies use the last good split, or the stable Service alone.
	InvalidSplit Reason = "InvalidSplit"
	// UnknownService says on an HTTPScaledObject that the Service of a backend does not exist. If
	// the annotation names the Service, the proxies use the last good split. If `scaleTargetRef`
	// names it, the object has no endpoints.
	UnknownService Reason = "UnknownService"
	// UnknownPort says on an HTTPScaledObject that the Service of a backend has no such port. The
	// proxies do the same as for `UnknownService`.
	UnknownPort Reason = "UnknownPort"
	// UnsupportedProtocol says on an HTTPScaledObject that the `appProtocol` of a backend asks for
	// TLS. The proxies do the same as for `UnknownService`.
	UnsupportedProtocol Reason = "UnsupportedProtocol"
	// InvalidAllowedNamespaces says on an HTTPScaledObject that an entry of the annotation with
	// the allowed namespaces is no namespace. The proxies serve the object without that entry.
	InvalidAllowedNamespaces Reason = "InvalidAllowedNamespaces"
	// HostNotOwned says on an HTTPScaledObject that the oldest objects with some of its hosts are
	// of [other namespaces](../how-to/tenants.md#hosts-that-several-namespaces-name), which do not
	// allow it. The Event names these objects. The proxies serve the object for these hosts. With
	// `--host-ownership` they do not.
	HostNotOwned Reason = "HostNotOwned"
	// HostDisputed says on an HTTPScaledObject that objects of namespaces that it does not allow
	// ask for a part of its hosts. The Event names these objects. The proxies serve the object,
	// and give them the part. With `--host-ownership` they do not get it.
	HostDisputed Reason = "HostDisputed"
	// Shadowed says on an HTTPScaledObject that another object, which the Event names, gets all of
	// its requests.
	Shadowed Reason = "Shadowed"
)

// quarantines tells whether an object cannot be served as it is.
func (r Reason) quarantines() bool {
	switch r {
	case InvalidHost, InvalidPathPrefix, InvalidHeader, InvalidTarget, TooLarge, InternalError:
		return true
	}
	return false
}

// Harmless tells whether all requests of an object go where it asks nevertheless.
func (r Reason) Harmless() bool {
	switch r {
	case Repeated, InvalidTimeout, InvalidFailover, InvalidAllowedNamespaces, HostDisputed:
		return true
	}
	return false
}

// mostNamed is how many entries or problems of one kind are listed: the space in an
// Event is limited, and the problems of one object must not drown those of the others.
const mostNamed = 5

// maxMessage bounds a message, in bytes, without what is served meanwhile: an object may
// have a host of a megabyte. Of a longer one, an Event has the beginning.
const maxMessage = 2048

// shorten cuts a text to most bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Problem is what is wrong with one HTTPScaledObject: for a Warning Event on it,
// a metric and the log.
type Problem struct {
	// Object is the HTTPScaledObject, and UID its identity.
	Object types.NamespacedName
	UID    types.UID
	Reason Reason
	// Field is where it is wrong, such as spec.hosts[1].
	Field string
	// Message says what was found, what was expected and what is served
	// meanwhile, on one line. It names the field, not the object.
	Message string
}

func compareProblems(a, b Problem) int {
	return cmp.Or(
		strings.Compare(a.Object.Namespace, b.Object.Namespace),
		strings.Compare(a.Object.Name, b.Object.Name),
		strings.Compare(string(a.Reason), string(b.Reason)),
		strings.Compare(a.Field, b.Field),
		strings.Compare(a.Message, b.Message),
		strings.Compare(string(a.UID), string(b.UID)),
	)
}

// sortProblems sorts problems and drops repeated ones.
func sortProblems(problems []Problem) []Problem {
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}
