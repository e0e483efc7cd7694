package routes

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// wholeWeight is the weight of the only backend of a route without a split.
const wholeWeight = 100

// annotationField is how messages name the split.
const annotationField = "metadata.annotations[" + weightedbackends.Annotation + "]"

// decide makes the route of an object from the object as it is and last, the route that
// served it last; last is nil if there is none, or if it was of another object. The
// result is nil if there is nothing to serve. With the result as last, decide returns
// the same again.
func (b *Builder) decide(d *checkedObject, last *Route) (*Route, []Problem) {
	problems := slices.Clone(d.problems)
	r := &Route{Name: d.name, UID: d.uid, Generation: d.generation, Annotation: d.text, AccessLog: d.accessLog, spec: d.spec}
	if r.spec == nil {
		if last == nil {
			if d.splitErr != "" {
				problems = append(problems, d.problem(InvalidSplit, annotationField, "%s", d.splitErr))
			}
			return nil, tellMeanwhile(problems, meanwhileNothing)
		}
		r.spec = last.spec
		problems = tellMeanwhile(problems, meanwhileLast)
	}
	split, told, more := b.splitFor(r, d, last)
	problems = append(problems, more...)

	r.ConditionWait, r.ResponseHeader = r.spec.conditionWait, r.spec.responseHeader
	r.Backends = make([]Backend, len(split))
	for i, side := range split {
		backend := &r.Backends[i]
		backend.Service, backend.Weight = side.Service, uint32(side.Weight)
		backend.Cluster = ClusterName(d.name, side.Service)
		endpoints, reason, problem := b.resolve(d.name.Namespace, target{side.Service, r.spec.target.port})
		backend.Endpoints = endpoints
		if reason != "" && !slices.Contains(told, side.Service) {
			problems = append(problems, d.problem(reason, r.splitField(), "%s", problem))
		}
	}
	shareOut(r.Backends)
	if f := r.spec.failover; f != nil {
		r.Failover = &Failover{Service: f.service, After: f.after}
		endpoints, reason, problem := b.resolve(d.name.Namespace, f.target)
		r.Failover.Endpoints = endpoints
		if reason != "" {
			problems = append(problems, d.problem(InvalidFailover, "spec.coldStartTimeoutFailoverRef", "%s", problem))
		}
	}
	return r, problems
}

// What messages say about what is served meanwhile.
const (
	meanwhileNothing = "the object is served nothing until then"
	meanwhileLast    = "its last good form goes on serving"
)

// tellMeanwhile adds what is served meanwhile to the problems that quarantine an
// object.
func tellMeanwhile(problems []Problem, meanwhile string) []Problem {
	for i := range problems {
		if problems[i].Reason.quarantines() {
			problems[i].Message += "; " + meanwhile
		}
	}
	return problems
}

// splitField returns the field that the backends of a route come from.
func (r *Route) splitField() string {
	if r.Split {
		return annotationField
	}
	return "spec.scaleTargetRef"
}

// splitFor returns the split in force: that of the annotation, the last good
// one, or the stable Service alone; and the Services that its problems tell of.
func (b *Builder) splitFor(r *Route, d *checkedObject, last *Route) (split []weightedbackends.Backend, told []string, problems []Problem) {
	stable := []weightedbackends.Backend{{Service: r.spec.target.service, Weight: wholeWeight}}
	if !d.annotated {
		return stable, nil, nil
	}
	if d.splitErr != "" {
		problems = append(problems, d.problem(InvalidSplit, annotationField, "%s", d.splitErr))
	}
	for _, side := range d.split {
		if len(problems) == mostNamed {
			break
		}
		if _, _, reason, problem := b.locate(d.name.Namespace, target{side.Service, r.spec.target.port}); reason != "" {
			problems = append(problems, d.problem(reason, annotationField, "%s", problem))
			told = append(told, side.Service)
		}
	}
	if len(problems) == 0 {
		r.Split, r.Rollout = true, d.rollout
		return d.split, nil, nil
	}
	split = stable
	meanwhile := "; all requests go to " + stable[0].Service + " until the split can be served"
	if last != nil && last.Split {
		r.Split, r.Rollout = true, last.Rollout
		split = last.asked()
		meanwhile = "; the last good split goes on serving: " + weightedbackends.Describe(split)
	}
	for i := range problems {
		problems[i].Message += meanwhile
	}
	return split, told, problems
}

// asked returns the weights that a route was asked for, whatever its shares are now.
func (r *Route) asked() []weightedbackends.Backend {
	split := make([]weightedbackends.Backend, len(r.Backends))
	for i := range r.Backends {
		split[i] = weightedbackends.Backend{Service: r.Backends[i].Service, Weight: int32(r.Backends[i].Weight)}
	}
	return split
}

// services returns the names of all Services that the result of decide depends on,
// sorted, each once.
func (d *checkedObject) services(r *Route) []string {
	var names []string
	for _, side := range d.split {
		names = append(names, side.Service)
	}
	if r != nil {
		names = append(names, r.spec.target.service)
		for i := range r.Backends {
			names = append(names, r.Backends[i].Service)
		}
		if r.Failover != nil {
			names = append(names, r.Failover.Service)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
