package xds

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// RefusedByEnvoy says on an HTTPScaledObject that the kedify-proxy that the Event names refuses
// it. The embedded proxy and all other kedify-proxies serve the object. This kedify-proxy serves
// the form that it accepted last, with the current split if it accepts that, or nothing. The
// problem ends when no connected kedify-proxy refuses the object.
const RefusedByEnvoy routes.Reason = "RefusedByEnvoy"

// The number of Problems that Envoys cause is bounded: any client that reaches the port
// can refuse every object, with a new text each time.
const (
	// maxTold is how many different Problems the Envoys of one address may cause
	// within toldTime.
	maxTold  = 20
	toldTime = time.Hour
	// maxTellers bounds the addresses that caused Problems within toldTime.
	maxTellers = 500
)

// refusals makes Problems of the HTTPScaledObjects that Envoys refuse now. They are
// for people alone: nothing that an Envoy is sent depends on them. Each object has one
// Problem at most, however many Envoys refuse it.
type refusals struct {
	now func() time.Time

	mu      sync.Mutex
	tell    func(opened, resolved []routes.Problem)
	claims  map[types.NamespacedName][]claim
	told    map[types.NamespacedName]routes.Problem
	tellers map[string]map[routes.Problem]time.Time // by address
}

// claim is one stream's report that a part of an object is refused.
type claim struct {
	by      *stream
	what    subjectOfClaim
	problem routes.Problem
}

// subjectOfClaim is the part of an object that is refused: its routes, or the cluster or
// the endpoints of a name.
type subjectOfClaim struct {
	object  types.NamespacedName
	kind    kind
	cluster string
}

func newRefusals() *refusals {
	return &refusals{
		now: time.Now, claims: make(map[types.NamespacedName][]claim),
		told: make(map[types.NamespacedName]routes.Problem), tellers: make(map[string]map[routes.Problem]time.Time),
	}
}

// set notes a claim in place of the stream's earlier claim on the same subject. It
// tells whether the object has a Problem.
func (r *refusals) set(c claim) (told bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	object := c.what.object
	r.drop(c.by, c.what)
	r.claims[object] = append(r.claims[object], c)
	r.settle(object)
	_, told = r.told[object]
	return told
}

func (r *refusals) remove(by *stream, what subjectOfClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(by, what)
	r.settle(what.object)
}

func (r *refusals) drop(by *stream, what subjectOfClaim) {
	var kept []claim // the list may be large, and is then rarely another
	for _, c := range r.claims[what.object] {
		if c.by != by || c.what != what {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		delete(r.claims, what.object)
	} else {
		r.claims[what.object] = kept
	}
}

// settle leaves an object's reported Problem as it is while a claim has the same one.
// Otherwise it resolves that Problem, and reports the first claim that may be reported.
func (r *refusals) settle(object types.NamespacedName) {
	told, is := r.told[object]
	claims := r.claims[object]
	var opened, resolved []routes.Problem
	if is {
		for _, c := range claims {
			if c.problem == told {
				return
			}
		}
		resolved = append(resolved, told)
		delete(r.told, object)
	}
	for _, c := range claims {
		if r.mayTell(c.by.address, c.problem) {
			r.told[object] = c.problem
			opened = append(opened, c.problem)
			break
		}
	}
	r.say(opened, resolved)
}

// mayTell tells whether the Envoys of an address may cause a Problem, and counts it.
func (r *refusals) mayTell(address string, p routes.Problem) bool {
	now := r.now()
	if r.tellers[address] == nil && len(r.tellers) >= maxTellers {
		for other := range r.tellers {
			r.forget(other, now)
		}
	}
	r.forget(address, now)
	all := r.tellers[address]
	if _, known := all[p]; known {
		return true
	}
	if len(all) >= maxTold || all == nil && len(r.tellers) >= maxTellers {
		return false
	}
	if all == nil {
		all = make(map[routes.Problem]time.Time)
		r.tellers[address] = all
	}
	all[p] = now
	return true
}

// forget drops the Problems that an address caused toldTime ago or earlier.
func (r *refusals) forget(address string, now time.Time) {
	all := r.tellers[address]
	for p, at := range all {
		if now.Sub(at) >= toldTime {
			delete(all, p)
		}
	}
	if len(all) == 0 {
		delete(r.tellers, address)
	}
}

// say reports Problems, in the order in which they open and resolve. It is called with
// mu held.
func (r *refusals) say(opened, resolved []routes.Problem) {
	if r.tell != nil && len(opened)+len(resolved) > 0 {
		r.tell(opened, resolved)
	}
}

// objects returns how many objects are refused by an Envoy now.
func (r *refusals) objects() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.claims)
}

// maxWarnings bounds the log lines about what one stream refuses.
const maxWarnings = 100

// warn logs what is wrong with an Envoy, maxWarnings times at most.
func (st *stream) warn(message string, attributes ...any) {
	switch st.warnings++; {
	case st.warnings <= maxWarnings:
		st.log.Warn(message, attributes...)
	case st.warnings == maxWarnings+1:
		st.log.Warn("this Envoy refuses much: the metric interceptor_xds_nacks_total alone tells of the rest")
	}
}

// refuses reports that the Envoy refuses a part of an object, or is not sent it because
// making it panicked.
func (st *stream) refuses(route *routes.Route, k kind, cluster, field, what string, reason error, consequence string) {
	subject := subjectOfClaim{route.Name, k, cluster}
	if _, claimed := st.claims[subject]; !claimed {
		st.claims[subject] = time.Now()
	}
	is, happens := RefusedByEnvoy, "refuses"
	panicked := (*panicError)(nil)
	if errors.As(reason, &panicked) {
		is, happens = routes.InternalError, "is not sent"
	}
	problem := routes.Problem{
		Object: route.Name, UID: route.UID, Reason: is, Field: field,
		Message: fmt.Sprintf("%s %s %s of this object: %s; %s", st.name(), happens, what, oneLine(reason.Error()), consequence),
	}
	if panicked == nil {
		st.warn("an Envoy refuses an HTTPScaledObject", "httpscaledobject", route.Name.String(), "message", problem.Message)
	} else {
		st.warn("a panic over an HTTPScaledObject; this is an error of the interceptor",
			"httpscaledobject", route.Name.String(), "message", problem.Message, "panic", panicked.cause, "stack", panicked.stack)
	}
	if told := st.server.refusals.set(claim{st, subject, problem}); !told && !st.untold {
		st.untold = true
		st.log.Warn("the Envoys of this address refuse so many HTTPScaledObjects that the others have no Event: the fault is rather theirs", "events", maxTold, "per", toldTime.String())
	}
}

// withdrawRefusal withdraws the report, if there is one, that the Envoy refuses a
// part of an object.
func (st *stream) withdrawRefusal(object types.NamespacedName, k kind, cluster string) {
	subject := subjectOfClaim{object, k, cluster}
	if _, claimed := st.claims[subject]; claimed {
		delete(st.claims, subject)
		st.server.refusals.remove(st, subject)
	}
}

// maxReason bounds how much of an error message of Envoy is reported, in bytes.
const maxReason = 400

// wantedValue matches the value of a header in an error message of Envoy, which prints
// the refused resource; the end of the message may be missing.
var wantedValue = regexp.MustCompile(`\bexact("?\s*:\s*)"(?:[^"\\]|\\(?s:.))*(?:"|\\?$)`)

// oneLine makes an error message of Envoy fit for a log line and an Event. The values of
// headers, which may be secrets, are left out.
func oneLine(text string) string {
	text = wantedValue.ReplaceAllString(clip(text, 4*maxReason), `exact$1"..."`)
	return printable(clip(text, maxReason))
}

// clip cuts a text that is longer than this many bytes, between characters, and appends
// "..." to it.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// printable returns a text as one line of printable characters.
func printable(text string) string {
	blank := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	return strings.Join(strings.Fields(strings.Map(blank, text)), " ")
}
