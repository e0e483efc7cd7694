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
	// InvalidHost is for an entry of spec.hosts that is no host.
	InvalidHost Reason = "InvalidHost"
	// InvalidPathPrefix is for an entry of spec.pathPrefixes that is no path.
	InvalidPathPrefix Reason = "InvalidPathPrefix"
	// InvalidHeader is for an entry of spec.headers that is no header, or one
	// that cannot choose an object.
	InvalidHeader Reason = "InvalidHeader"
	// InvalidTarget is for a spec.scaleTargetRef that names no Service, or not
	// exactly one of port and portName.
	InvalidTarget Reason = "InvalidTarget"
	// TooLarge is for more hosts, paths and headers than one object may have.
	TooLarge Reason = "TooLarge"
	// OverBudget is for an object whose matches, or those of a wildcard host, have no
	// room beside those of others. No earlier form of it goes on serving.
	OverBudget Reason = "OverBudget"
	// InternalError is for an object at which the interceptor itself fails.
	InternalError Reason = "InternalError"
)

// The reasons of Problems that leave an object in the table as it is.
const (
	// Repeated is for an entry of spec.hosts, pathPrefixes or headers that is in the
	// list twice. It counts once.
	Repeated Reason = "Repeated"
	// InvalidTimeout is for a timeout that is no duration. The interceptor's own
	// timeout applies.
	InvalidTimeout Reason = "InvalidTimeout"
	// InvalidFailover is for a spec.coldStartTimeoutFailoverRef that cannot be
	// served, or has a bad timeout.
	InvalidFailover Reason = "InvalidFailover"
	// InvalidSplit is for an annotation that cannot be read. The last good
	// split stays, or the stable Service gets everything.
	InvalidSplit Reason = "InvalidSplit"
	// UnknownService is for a backend whose Service does not exist. In an annotation,
	// it has the effect of InvalidSplit.
	UnknownService Reason = "UnknownService"
	// UnknownPort is for a backend whose Service has no such port. In an annotation, it
	// has the effect of InvalidSplit.
	UnknownPort Reason = "UnknownPort"
	// UnsupportedProtocol is for a backend whose appProtocol asks for TLS. It has the
	// effect of UnknownPort.
	UnsupportedProtocol Reason = "UnsupportedProtocol"
	// InvalidAllowedNamespaces is for an entry of AllowedNamespacesAnnotation that
	// is no namespace.
	InvalidAllowedNamespaces Reason = "InvalidAllowedNamespaces"
	// HostNotOwned is for an object that names hosts whose oldest objects are of other
	// namespaces and do not allow it.
	HostNotOwned Reason = "HostNotOwned"
	// HostDisputed is for the oldest object that names a host, if objects of namespaces
	// that it does not allow name the host too.
	HostDisputed Reason = "HostDisputed"
	// Shadowed is for an object whose requests all go to other objects.
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
