package routes

// hostRules are the objects of one host pattern. They are immutable; nil is empty.
type hostRules struct {
	// named has all objects that name the host, and served those that a proxy of all
	// namespaces serves. If these are all, both are the same tree.
	named, served *pathTree
	claims        claims
	// crowded counts the objects that are crowded out, or left out.
	crowded int
}

func (h *hostRules) find(path string, header map[string][]string) *matcher {
	if h == nil || h.served == nil {
		return nil
	}
	return h.served.find(path, header)
}

// with and without return the rules with one object added or removed. without returns
// nil if no object is left.
func (h *hostRules) with(m *matcher, owned bool) *hostRules {
	return h.change(m, owned, 1, claims.with, func(r *rules) { r.insert(m) })
}

func (h *hostRules) without(m *matcher, owned bool) *hostRules {
	return h.change(m, owned, -1, claims.without, func(r *rules) { r.remove(m) })
}

func (h *hostRules) change(m *matcher, owned bool, more int, claim func(claims, *matcher) claims, change func(*rules)) *hostRules {
	var next hostRules
	if h != nil {
		next = *h
	}
	before := next.claims.owner()
	next.named = next.named.editAll(m.prefixes, change)
	next.claims = claim(next.claims, m)
	if m.crowded || m.leftOut {
		next.crowded += more
	}
	after := next.claims.owner()
	switch {
	case after == nil:
		return nil
	case next.crowded == 0 && (!owned || !next.claims.disputed()):
		next.served = next.named
	case owned && !sameOwner(before, after):
		next.served = next.buildServedTo(nil, view{owned: owned})
	case m.crowded, m.leftOut, owned && !after.allows(m.name.Namespace): // it is not served
	default:
		next.served = next.served.editAll(m.prefixes, change)
	}
	return &next
}

// buildServedTo returns the rules of the objects that a proxy of these namespaces serves.
func (h *hostRules) buildServedTo(namespaces Namespaces, v view) *pathTree {
	var tree *pathTree
	var owner *matcher
	if v.owned {
		owner = h.claims.ownerAmong(namespaces)
	}
	for i := range h.claims {
		c := &h.claims[i]
		if !namespaces.Has(c.namespace) || owner != nil && !owner.allows(c.namespace) {
			continue
		}
		for _, m := range c.objects {
			if !m.leftOut && (!m.crowded || !v.crowds(namespaces)) {
				tree = tree.editAll(m.prefixes, func(r *rules) { r.insert(m) })
			}
		}
	}
	return tree
}

// servedTo returns the same as buildServedTo, and makes a new tree only if it has to.
func (h *hostRules) servedTo(namespaces Namespaces, v view) *pathTree {
	switch {
	case h == nil:
		return nil
	case namespaces == nil:
		return h.served
	case len(h.claims) == 1 && h.crowded == 0:
		if namespaces.Has(h.claims[0].namespace) {
			return h.named
		}
		return nil
	}
	return h.buildServedTo(namespaces, v)
}
