package routes

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// commit is one Commit under way.
type commit struct {
	*Builder
	next    Table
	changes Changes
	// moved are the sites where an object was added or removed.
	moved map[site]movement
	// movedHosts are the hosts where objects were added or removed, with these objects.
	movedHosts map[string][]*matcher
	// uncharged has the failures because of which objects were not charged.
	uncharged map[*object]string
	// again are the objects to decide again at the next Commit.
	again []*object
	// recheck are the objects whose problems may have changed.
	recheck map[*object]struct{}
}

// decide puts one object's route into the table, or takes it out.
func (c *commit) decide(o *object) {
	c.recheck[o] = struct{}{}
	name, d := o.name, o.checked
	before := c.table.Route(name)
	var after *Route
	o.found = nil
	switch {
	case d == nil:
		c.link(o, nil)
		delete(c.objects, name)
	case o.noRoom, o.place.outcome == leftOut:
		after = c.keepHosts(o)
		o.found = sortProblems(c.leaveOut(o, after))
		c.link(o, d.services(after))
	default:
		after, o.found = c.Builder.decide(d, c.last(o))
		o.found = sortProblems(c.crowd(o, after, o.found))
		c.link(o, d.services(after))
	}
	c.keepWhatStays(d, before, after)
	c.replace(name, before, after)
}

// last returns the route that served an object last; nil when there is none.
func (c *commit) last(o *object) *Route {
	table := c.table
	if c.before != nil {
		table = c.before
	}
	if last := table.Route(o.name); last != nil && o.checked != nil && last.UID == o.checked.uid {
		return last
	}
	return nil
}

// replace puts a route into the table in place of another; nil stands for none.
func (c *commit) replace(name types.NamespacedName, before, after *Route) {
	switch {
	case before == nil && after == nil, before != nil && after != nil && before.equal(after):
		return
	case after == nil:
		key := name.String()
		c.next.routes = c.next.routes.without(hashOf(key), key)
		c.take(before.spec.match)
	case before == nil:
		c.put(after.spec.match)
		c.next.routes = c.next.routes.with(after.spec.match.hash, after.spec.match.key, after)
	default:
		if before.spec.match != after.spec.match {
			c.take(before.spec.match)
			c.put(after.spec.match)
		}
		c.next.routes = c.next.routes.with(after.spec.match.hash, after.spec.match.key, after)
	}
	c.changes.Routes = append(c.changes.Routes, RouteChange{name, before, after})
	c.changes.addClusters(before, after)
}

// keepWhatStays has a route share with the one before what is the same in both: the
// hosts and paths of an object whose weights change stay where they are in the table,
// and endpoints that do not change are in memory once.
func (c *commit) keepWhatStays(d *checkedObject, before, after *Route) {
	if before == nil || after == nil {
		return
	}
	switch was, is := before.spec, after.spec; {
	case was.equal(is):
		after.spec = was
		if d.spec == is {
			d.spec = was
		}
	case was.match.equal(is.match):
		is.match = was.match
	}
	for i := range after.Backends {
		b := &after.Backends[i]
		if old := findBackend(before.Backends, b.Service); old != nil && old.Equal(b.Endpoints) {
			b.Endpoints, b.Cluster = old.Endpoints, old.Cluster
		}
	}
}

// put and take add the hosts and paths of an object to the table and remove them.
func (c *commit) put(m *matcher) {
	c.next.hosts = c.next.hosts.with(m, c.next.view.owned)
	c.edited(m)
}

func (c *commit) take(m *matcher) {
	c.next.hosts = c.next.hosts.without(m, c.next.view.owned)
	c.edited(m)
	for _, host := range m.hosts {
		for _, prefix := range m.prefixes {
			c.shadows.clear(m.name, site{host, prefix})
		}
	}
}

func (c *commit) edited(m *matcher) {
	if o := c.objects[m.name]; o != nil {
		o.uncompared = ""
	}
	for _, host := range m.hosts {
		c.movedHosts[host] = append(c.movedHosts[host], m)
		for _, prefix := range m.prefixes {
			c.move(m, site{host, prefix})
		}
	}
}

func (c *commit) move(m *matcher, at site) {
	moved := c.moved[at]
	moved.add(m)
	c.moved[at] = moved
}

// lookForShadows checks the sites where objects were added or removed.
func (c *commit) lookForShadows() {
	for at, moved := range c.moved {
		c.compare(compareSites, moved.last, func() {
			c.shadows.look(at, c.next.hosts.at(at.host).servedTo(nil, c.next.view).at(at.prefix), moved, c.markForRecheck)
		})
	}
}

// updateProblems updates the problems of the objects whose problems may have changed.
func (c *commit) updateProblems() {
	for o := range c.recheck {
		key := o.name.String()
		hash := hashOf(key)
		before, _ := c.table.problems.get(hash, key)
		after := o.found
		if route, served := c.next.routes.get(hash, key); served && o.checked != nil {
			if failure := c.attempt(tellProblems, httpScaledObjectKind, o.name, func() { after = c.problemsOf(o, route) }); failure != "" {
				after = sortProblems(append(slices.Clone(o.found), o.checked.uncomparedProblem(failure)))
			}
		}
		if slices.Equal(before, after) {
			continue
		}
		c.changes.addProblems(before, after)
		if len(after) == 0 {
			c.next.problems = c.next.problems.without(hash, key)
		} else {
			c.next.problems = c.next.problems.with(hash, key, after)
		}
	}
}

// problemsOf returns the problems of an object that is served.
func (c *commit) problemsOf(o *object, route *Route) []Problem {
	p, shadowed := c.shadows.problem(o.checked, route.spec.match)
	more := c.disputesOf(o, shadowed)
	if shadowed {
		more = append(more, p)
	}
	if o.uncompared != "" {
		more = append(more, o.checked.uncomparedProblem(o.uncompared))
	}
	if len(more) == 0 {
		return o.found
	}
	return sortProblems(append(slices.Clone(o.found), more...))
}
