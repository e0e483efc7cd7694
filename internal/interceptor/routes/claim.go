package routes

import "slices"

// claim has the objects of one namespace that name a host, oldest first.
type claim struct {
	namespace string
	objects   []*matcher
}

// claims are all claims to one host: that of the namespace with the oldest object
// first. They are immutable.
type claims []claim

// owner returns the oldest object; nil for none.
func (c claims) owner() *matcher { return c.ownerAmong(nil) }

// ownerAmong returns the oldest object of these namespaces; nil for none.
func (c claims) ownerAmong(namespaces Namespaces) *matcher {
	for i := range c {
		if namespaces.Has(c[i].namespace) {
			return c[i].objects[0]
		}
	}
	return nil
}

func (c claims) with(m *matcher) claims {
	return c.change(m.name.Namespace, func(objects []*matcher) []*matcher { return withMatcher(objects, m) })
}

func (c claims) without(m *matcher) claims {
	return c.change(m.name.Namespace, func(objects []*matcher) []*matcher { return withoutMatcher(objects, m) })
}

func (c claims) change(namespace string, change func([]*matcher) []*matcher) claims {
	next := make(claims, 0, len(c)+1)
	var objects []*matcher
	for _, is := range c {
		if is.namespace == namespace {
			objects = is.objects
			continue
		}
		next = append(next, is)
	}
	if objects = change(objects); len(objects) > 0 {
		at, _ := slices.BinarySearchFunc(next, objects[0], func(is claim, m *matcher) int { return compareAge(is.objects[0], m) })
		next = slices.Insert(next, at, claim{namespace, objects})
	}
	return next
}

// has tells whether an object is among the claims.
func (c claims) has(m *matcher) bool {
	for i := range c {
		if c[i].namespace == m.name.Namespace {
			_, found := slices.BinarySearchFunc(c[i].objects, m, compareAge)
			return found
		}
	}
	return false
}

// disallowed returns the oldest object of each namespace that the owner does not
// allow.
func (c claims) disallowed() []*matcher {
	var all []*matcher
	for i := range c {
		if !c.owner().allows(c[i].namespace) {
			all = append(all, c[i].objects[0])
		}
	}
	return all
}

// disputed tells whether there are disallowed objects.
func (c claims) disputed() bool {
	return slices.ContainsFunc(c, func(is claim) bool { return !c.owner().allows(is.namespace) })
}

// sameOwner tells whether two owners, nil for none, are the same object and allow the
// same namespaces.
func sameOwner(a, b *matcher) bool {
	return a == b || a != nil && b != nil && a.name == b.name && slices.Equal(a.allowed, b.allowed)
}
