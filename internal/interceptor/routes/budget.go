package routes

import (
	"maps"
	"slices"
)

// budget bounds the matches of wildcard hosts. In Envoy, each host below a wildcard
// lists the matches of the wildcard too, so that the paths of one object are repeated
// for every host of another. What an object is charged depends on its own spec alone.
type budget struct {
	Policy
	namespaces map[string]*account
	// used are the matches that proxies of all namespaces serve.
	used *load
	// short are the namespaces with objects that are crowded out.
	short map[string]struct{}
}

// account is what one namespace uses of the budget.
type account struct {
	members []*object      // that are charged for wildcards, oldest first
	used    map[string]int // matches of admitted objects, by wildcard
}

// place is what the budget decided on an object.
type place struct {
	outcome outcome
	// host is the first of its wildcards for which there was no room.
	host string
}

type outcome uint8

const (
	// admitted is also for objects that name no wildcard.
	admitted outcome = iota
	// crowdedOut objects are served only by proxies of at most Policy.roomy namespaces.
	crowdedOut
	// leftOut objects are not served.
	leftOut
)

func newBudget(p Policy) budget {
	return budget{Policy: p, namespaces: make(map[string]*account), used: &load{}, short: make(map[string]struct{})}
}

// charge calls each with every wildcard that an object is charged for and the number of
// matches charged. A nil matcher is charged nothing.
func (m *matcher) charge(each func(host string, matches int)) {
	if m == nil {
		return
	}
	for _, host := range m.wildcards {
		each(host, m.matches())
	}
}

// matches returns how many matches the object adds to each host that lists it.
func (m *matcher) matches() int { return len(m.prefixes) * max(1, len(m.headers)) }

// wildcards returns the hosts that an object is charged for: its wildcards. One below
// another of the same object adds nothing, as a host lists the object once; "*" counts
// separately.
func wildcards(hosts []string) []string {
	var all []string
	named := make(map[string]bool)
	for _, host := range hosts {
		if _, wild := splitPattern(host); wild {
			all = append(all, host)
			named[host] = true
		}
	}
	return slices.DeleteFunc(all, func(host string) bool {
		return slices.ContainsFunc(wider(host), func(above string) bool { return above != anyHost && named[above] })
	})
}

func (m *matcher) charges() map[string]int {
	all := make(map[string]int)
	m.charge(func(host string, matches int) { all[host] = matches })
	return all
}

// charged tells whether an object is charged anything.
func (m *matcher) charged() (is bool) {
	m.charge(func(string, int) { is = true })
	return is
}

// fits adds an object's matches to used, if no host then lists more than room matches.
// Otherwise it returns the first of the object's wildcards that lacks room.
func fits(m *matcher, used *load, room int) (without string, ok bool) {
	ok = true
	m.charge(func(host string, matches int) {
		if ok && !used.fits(host, matches, room) {
			without, ok = host, false
		}
	})
	if ok {
		m.charge(used.add)
	}
	return without, ok
}

// allot decides the places of objects, if what any object asks for has changed. A
// namespace keeps the room that its objects have, whatever objects of other namespaces
// ask for.
func (c *commit) allot() {
	b := &c.budget
	changed := make(map[string]struct{})
	for o := range c.dirty {
		if c.uncharged[o] != "" {
			continue
		}
		other := false
		if failure := c.attempt(chargeBudget, httpScaledObjectKind, o.name, func() { other = b.charge(o, c.chargeable(o)) }); failure != "" {
			c.uncharged[o] = failure
		}
		if other {
			changed[o.name.Namespace] = struct{}{}
		}
	}
	if len(changed) == 0 {
		return
	}
	maps.Copy(changed, b.short)
	kept := make(map[string]map[string]int, len(changed))
	for namespace := range changed {
		a := b.namespaces[namespace]
		for host, matches := range a.used {
			b.used.add(host, -matches)
		}
		kept[namespace] = c.keep(a)
		for host, matches := range kept[namespace] {
			b.used.add(host, matches)
		}
	}
	for _, namespace := range b.inOrder(changed) {
		for host, matches := range kept[namespace] {
			b.used.add(host, -matches)
		}
		first := c.served
		if c.asksForMore(b.namespaces[namespace]) {
			first = func(*object) bool { return false }
		}
		c.share(namespace, first)
	}
	// Room that some namespaces have given up goes to those that are short of it.
	for more := true; more; {
		more = false
		for _, namespace := range b.inOrder(b.short) {
			for host, matches := range b.namespaces[namespace].used {
				b.used.add(host, -matches)
			}
			more = c.share(namespace, func(o *object) bool { return o.place.outcome == admitted }) || more
		}
	}
}

// asked returns what the spec of an object asks for or, if it cannot be served, its
// last good form; nil if there is neither.
func (c *commit) asked(o *object) *matcher {
	if d := o.checked; d != nil && d.spec != nil {
		return d.spec.match
	}
	if last := c.last(o); last != nil {
		return last.spec.match
	}
	return nil
}

// chargeable returns what the budget charges an object for: nothing if its namespace has
// no room for its matches.
func (c *commit) chargeable(o *object) *matcher {
	if o.noRoom {
		return nil
	}
	return c.asked(o)
}

// charge records what an object asks for, and tells whether the budget has to be
// allotted again.
func (b *budget) charge(o *object, m *matcher) bool {
	before := o.charged
	if m.equal(before) {
		return false
	}
	if !m.charged() {
		m = nil
	}
	if before == nil && m == nil {
		return false
	}
	a := b.namespaces[o.name.Namespace]
	if a == nil {
		a = &account{}
		b.namespaces[o.name.Namespace] = a
	}
	byAge := func(o *object, m *matcher) int { return compareAge(o.charged, m) }
	if before != nil {
		at, _ := slices.BinarySearchFunc(a.members, before, byAge)
		a.members = slices.Delete(a.members, at, at+1)
	}
	if o.charged = m; m != nil {
		at, _ := slices.BinarySearchFunc(a.members, m, byAge)
		a.members = slices.Insert(a.members, at, o)
	} else {
		o.place = place{}
	}
	return true
}

// eligible returns the objects that fit into their namespace's own limit, oldest first,
// and calls each for every other object with the wildcard that lacks room.
func (b *budget) eligible(a *account, each func(o *object, without string)) []*object {
	var used load
	var all []*object
	for _, o := range a.members {
		if without, ok := fits(o.charged, &used, b.MaxWildcardMatchesPerNamespace); ok {
			all = append(all, o)
		} else {
			each(o, without)
		}
	}
	return all
}

// keep returns, by wildcard, the matches that the objects of a namespace have had until
// now and still ask for.
func (c *commit) keep(a *account) map[string]int {
	kept := make(map[string]int)
	for _, o := range c.budget.eligible(a, func(*object, string) {}) {
		if !c.served(o) {
			continue
		}
		had := c.last(o).spec.match.charges()
		o.charged.charge(func(host string, matches int) { kept[host] += min(had[host], matches) })
	}
	return kept
}

// served tells whether proxies of all namespaces have served an object until now.
func (c *commit) served(o *object) bool {
	last := c.last(o)
	return last != nil && !last.spec.match.crowded && !last.spec.match.leftOut
}

// asksForMore tells whether a namespace asks for other matches than before. Then its
// objects get room by age, so that its newest objects give way to older ones.
func (c *commit) asksForMore(a *account) bool {
	return slices.ContainsFunc(c.budget.eligible(a, func(*object, string) {}), func(o *object) bool {
		last := c.last(o)
		return last == nil || last.spec.match.leftOut || !maps.Equal(last.spec.match.charges(), o.charged.charges())
	})
}

// inOrder returns namespaces by the age of their oldest objects. It forgets namespaces
// that have no charged objects any more.
func (b *budget) inOrder(changed map[string]struct{}) []string {
	var all []string
	for namespace := range changed {
		if len(b.namespaces[namespace].members) == 0 {
			delete(b.namespaces, namespace)
			delete(b.short, namespace)
			continue
		}
		all = append(all, namespace)
	}
	slices.SortFunc(all, func(x, y string) int {
		return compareAge(b.namespaces[x].members[0].charged, b.namespaces[y].members[0].charged)
	})
	return all
}

// share decides the places of the objects of a namespace: those for which first is true
// come first, then the others, each by age. It tells whether any place has changed.
func (c *commit) share(namespace string, first func(*object) bool) (changed bool) {
	b := &c.budget
	a := b.namespaces[namespace]
	give := func(o *object, p place) {
		if o.place != p {
			o.place, changed = p, true
			c.dirty[o] = struct{}{}
		}
	}
	delete(b.short, namespace)
	used := make(map[string]int)
	all := b.eligible(a, func(o *object, without string) { give(o, place{leftOut, without}) })
	some, rest := make([]*object, 0, len(all)), make([]*object, 0, len(all))
	for _, o := range all {
		if first(o) {
			some = append(some, o)
		} else {
			rest = append(rest, o)
		}
	}
	for _, o := range append(some, rest...) {
		without, ok := fits(o.charged, b.used, b.MaxWildcardMatches)
		if ok {
			o.charged.charge(func(host string, matches int) { used[host] += matches })
			give(o, place{})
			continue
		}
		give(o, place{crowdedOut, without})
		b.short[namespace] = struct{}{}
	}
	a.used = used
	return changed
}

// overBudget returns the Problem of an object for which there is no room.
func (b *budget) overBudget(d *checkedObject, p place, m *matcher) Problem {
	if p.outcome == leftOut {
		return d.problem(OverBudget, "spec.hosts",
			"a host under %s would list more than %d matches (path prefixes times headers) of this namespace (--max-wildcard-matches-per-namespace), and this object asks for %d; it is served nothing until there is room. Name hosts, or fewer paths",
			p.host, b.MaxWildcardMatchesPerNamespace, m.matches())
	}
	return d.problem(OverBudget, "spec.hosts",
		"a host under %s would list more than %d matches (path prefixes times headers) of all namespaces (--max-wildcard-matches), and this object asks for %d; until there is room, only kedify-proxies of up to %d namespaces serve it. Name hosts, or fewer paths",
		p.host, b.MaxWildcardMatches, m.matches(), b.roomy())
}

// keepHosts returns the route of an object that is left out: the route gets no
// requests, but by it the object still owns its hosts. It is nil without
// Policy.HostOwnership, and for objects for whose matches there is no room.
func (c *commit) keepHosts(o *object) *Route {
	if !c.next.view.owned || o.noRoom {
		return nil
	}
	r, _ := c.Builder.decide(o.checked, c.last(o))
	c.mark(o, r)
	return r
}

// leaveOut returns the problems of an object that is not served.
func (c *commit) leaveOut(o *object, kept *Route) []Problem {
	d := o.checked
	if d.spec == nil && kept == nil {
		c.again = append(c.again, o) // its last good form is lost, and the next Commit stops charging for it
	}
	problems := tellMeanwhile(slices.Clone(d.problems), meanwhileNothing)
	if o.noRoom {
		return append(problems, c.limit.overLimit(o))
	}
	return append(problems, c.budget.overBudget(d, o.place, o.charged))
}

// mark writes the place of an object into its route, if it has one.
func (c *commit) mark(o *object, r *Route) {
	if r == nil {
		return
	}
	m, crowded, left := r.spec.match, o.place.outcome == crowdedOut, o.place.outcome == leftOut
	if m.crowded != crowded || m.leftOut != left {
		other, spec := *m, *r.spec
		other.crowded, other.leftOut = crowded, left
		spec.match, r.spec = &other, &spec
	}
}

// crowd writes into the route of an object whether it is crowded out, and adds the
// Problem if it is.
func (c *commit) crowd(o *object, r *Route, problems []Problem) []Problem {
	if r == nil {
		return problems
	}
	c.mark(o, r)
	if r.spec.match.crowded {
		problems = append(problems, c.budget.overBudget(o.checked, o.place, r.spec.match))
	}
	return problems
}
