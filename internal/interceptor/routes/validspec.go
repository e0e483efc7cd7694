package routes

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// defaultFailoverAfter is the CRD's default of
// coldStartTimeoutFailoverRef.timeoutSeconds.
const defaultFailoverAfter = 30 * time.Second

// maxMatches bounds what one object can ask of the table, in hosts times path prefixes
// times headers, as all objects share the table.
const maxMatches = 10000

// validSpec is a spec that can be served.
type validSpec struct {
	match          *matcher
	target         target
	failover       *failoverTarget
	conditionWait  *time.Duration
	responseHeader *time.Duration
}

// target is one port of a Service.
type target struct {
	service string
	port    port
}

// port is a port of a Service: by number, or by name when that is 0.
type port struct {
	number int32
	name   string
}

func (p port) String() string {
	if p.number != 0 {
		return strconv.Itoa(int(p.number))
	}
	return strconv.Quote(p.name)
}

type failoverTarget struct {
	target
	after time.Duration
}

func (f *validSpec) equal(other *validSpec) bool {
	if f == nil || other == nil {
		return f == other
	}
	return f.match.equal(other.match) && f.target == other.target &&
		(f.failover == other.failover || f.failover != nil && other.failover != nil && *f.failover == *other.failover) &&
		equalDuration(f.conditionWait, other.conditionWait) && equalDuration(f.responseHeader, other.responseHeader)
}

// checkedObject is an HTTPScaledObject checked alone.
type checkedObject struct {
	name       types.NamespacedName
	uid        types.UID
	generation int64
	// spec is nil when it cannot be served.
	spec *validSpec
	// problems are those that can be found in the object alone.
	problems []Problem
	// annotated tells that there is a split annotation, text is its value, and split
	// the parsed value, nil if it cannot be read.
	annotated bool
	text      string
	split     []weightedbackends.Backend
	splitErr  string
	rollout   string
	accessLog bool
}

func (d *checkedObject) equal(other *checkedObject) bool {
	return d.name == other.name && d.uid == other.uid && d.generation == other.generation && d.annotated == other.annotated && d.text == other.text &&
		d.rollout == other.rollout && d.accessLog == other.accessLog && d.spec.equal(other.spec) && slices.Equal(d.problems, other.problems)
}

func (d *checkedObject) problem(reason Reason, field, format string, args ...any) Problem {
	return Problem{Object: d.name, UID: d.uid, Reason: reason, Field: field, Message: shorten(field+": "+fmt.Sprintf(format, args...), maxMessage)}
}

// checkSplit reads the split annotation. If its text is the same as in old, which is
// what was known of the object before, the split is not parsed again.
func (d *checkedObject) checkSplit(object *httpv1alpha1.HTTPScaledObject, old *checkedObject) {
	d.text, d.annotated = object.Annotations[weightedbackends.Annotation]
	switch {
	case !d.annotated:
		return
	case old != nil && old.annotated && old.text == d.text:
		d.split, d.splitErr = old.split, old.splitErr
	default:
		split, err := weightedbackends.Parse(d.text)
		d.split = split
		if err != nil {
			d.splitErr = err.Error()
		}
	}
	d.rollout = object.Annotations[weightedbackends.OwnerAnnotation]
}

// checkSpec sets spec, adds the problems with which the object can be served
// nevertheless, and returns those with which it cannot.
func (d *checkedObject) checkSpec(spec *httpv1alpha1.HTTPScaledObjectSpec, created time.Time, allowed []string) (bad []Problem) {
	hosts := collect(d, "spec.hosts", len(spec.Hosts), InvalidHost, &bad, func(i int) (string, error) {
		return hostPattern(spec.Hosts[i])
	})
	prefixes := collect(d, "spec.pathPrefixes", len(spec.PathPrefixes), InvalidPathPrefix, &bad, func(i int) (string, error) {
		return pathPrefix(spec.PathPrefixes[i])
	})
	headers := collect(d, "spec.headers", len(spec.Headers), InvalidHeader, &bad, func(i int) (Header, error) {
		return checkHeader(spec.Headers[i].Name, spec.Headers[i].Value)
	})
	if matches := countMatches(hosts, prefixes, headers); matches > maxMatches {
		bad = append(bad, d.problem(TooLarge, "spec", "%d hosts with %d path prefixes and %d headers make %d matches, above %d; make several objects of this one",
			len(hosts), len(prefixes), len(headers), matches, maxMatches))
	}
	if len(hosts) == 0 {
		hosts = []string{anyHost}
	}
	if len(prefixes) == 0 {
		prefixes = []string{anyPath}
	}
	ref := &spec.ScaleTargetRef
	to, field, problem := checkTarget(ref.Service, ref.Port, ref.PortName)
	if problem != "" {
		bad = append(bad, d.problem(InvalidTarget, "spec.scaleTargetRef"+field, "%s", problem))
	}
	d.spec = &validSpec{
		match:    newMatcher(d.name, created, hosts, prefixes, headers, allowed),
		target:   to,
		failover: d.checkFailover(spec.ColdStartTimeoutFailoverRef),
	}
	if t := spec.Timeouts; t != nil {
		d.spec.conditionWait = d.checkTimeout("spec.timeouts.conditionWait", t.ConditionWait)
		d.spec.responseHeader = d.checkTimeout("spec.timeouts.responseHeader", t.ResponseHeader)
	}
	return bad
}

// collect reads a list, without repeated entries. It reports the first few bad and the
// first few repeated entries only.
func collect[T comparable](d *checkedObject, field string, length int, reason Reason, bad *[]Problem, read func(int) (T, error)) []T {
	if length == 0 {
		return nil
	}
	list := make([]T, 0, length)
	seen := make(map[T]bool, length)
	invalid, repeated := 0, 0
	for i := range length {
		entry, err := read(i)
		switch {
		case err != nil:
			if invalid++; invalid <= mostNamed {
				*bad = append(*bad, d.problem(reason, fmt.Sprintf("%s[%d]", field, i), "%.500s", err))
			}
		case seen[entry]:
			if repeated++; repeated <= mostNamed {
				d.problems = append(d.problems, d.problem(Repeated, fmt.Sprintf("%s[%d]", field, i), "%.300s is in the list already; it counts once", fmt.Sprint(entry)))
			}
		default:
			seen[entry] = true
			list = append(list, entry)
		}
	}
	return list
}

func checkTarget(service string, number *int32, name *string) (to target, field, problem string) {
	to.service = service
	switch {
	case service == "":
		return to, ".service", "is empty; expected the name of a Service"
	case number != nil && name != nil, number == nil && name == nil:
		return to, "", "expected exactly one of port and portName"
	case number != nil && (*number < 1 || *number > 65535):
		return to, ".port", fmt.Sprintf("%d is no port; expected 1 to 65535", *number)
	case number != nil:
		to.port.number = *number
	case *name == "":
		return to, ".portName", "is empty; expected the name of one of the Service's ports"
	default:
		to.port.name = *name
	}
	return to, "", ""
}

func (d *checkedObject) checkFailover(ref *httpv1alpha1.ColdStartTimeoutFailoverRef) *failoverTarget {
	const field = "spec.coldStartTimeoutFailoverRef"
	if ref == nil {
		return nil
	}
	to, below, problem := checkTarget(ref.Service, ref.Port, ref.PortName)
	if problem != "" {
		d.problems = append(d.problems, d.problem(InvalidFailover, field+below, "%s; there is no failover until then", problem))
		return nil
	}
	after := defaultFailoverAfter
	if seconds := ref.TimeoutSeconds; seconds != nil {
		if *seconds >= 0 {
			after = time.Duration(*seconds) * time.Second
		} else {
			d.problems = append(d.problems, d.problem(InvalidFailover, field+".timeoutSeconds",
				"%d is below 0; %v is taken instead", *seconds, defaultFailoverAfter))
		}
	}
	return &failoverTarget{target: to, after: after}
}

func (d *checkedObject) checkTimeout(field string, text *string) *time.Duration {
	if text == nil {
		return nil
	}
	timeout, err := time.ParseDuration(*text)
	if err != nil || timeout < 0 {
		d.problems = append(d.problems, d.problem(InvalidTimeout, field,
			"%q is no duration; expected one such as 500ms, 20s or 1m30s; the interceptor's own timeout is taken instead", *text))
		return nil
	}
	return &timeout
}
