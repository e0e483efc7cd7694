package routes

import "strings"

// hostTree holds the rules of all hosts, with a level per label from the right: one
// walk down finds the exact name of a host, the wildcards it ends in and any host. It
// is immutable; the zero tree is empty.
type hostTree struct {
	exact *hostRules // of this name
	wild  *hostRules // of every name below it; at the root, of any host
	below dict[*hostTree]
}

// find returns the first object that wants a request; t is the root. host is canonical,
// path begins with a slash.
func (t *hostTree) find(host, path string, header map[string][]string) *matcher {
	if m := t.step(host, path, header); m != nil {
		return m
	}
	// Unlike the wildcards, any host includes an empty one.
	return t.wild.find(path, header)
}

// step looks below t. host is the rest of the host: what precedes the dot and the name
// of t.
func (t *hostTree) step(host, path string, header map[string][]string) *matcher {
	left, label, more := cutLastLabel(host)
	child, found := t.below.get(hashOf(label), label)
	if !found {
		return nil
	}
	if !more {
		return child.exact.find(path, header)
	}
	if child.below.len > 0 {
		if m := child.step(left, path, header); m != nil {
			return m
		}
	}
	// The star stands for at least one character.
	if left != "" {
		return child.wild.find(path, header)
	}
	return nil
}

// cutLastLabel cuts "a.b.c" into "a.b" and "c".
func cutLastLabel(host string) (left, label string, more bool) {
	if dot := strings.LastIndexByte(host, '.'); dot >= 0 {
		return host[:dot], host[dot+1:], true
	}
	return "", host, false
}

// splitPattern splits a host pattern into its name and whether a star precedes it.
func splitPattern(pattern string) (name string, wild bool) {
	if pattern == anyHost {
		return "", true
	}
	return strings.CutPrefix(pattern, "*.")
}

// named returns the tree of a name, or nil.
func (t *hostTree) named(name string) *hostTree {
	for more := name != ""; more && t != nil; {
		var label string
		name, label, more = cutLastLabel(name)
		t, _ = t.below.get(hashOf(label), label)
	}
	return t
}

// at returns the rules of a host pattern; nil when it has none.
func (t *hostTree) at(pattern string) *hostRules {
	name, wild := splitPattern(pattern)
	switch t = t.named(name); {
	case t == nil:
		return nil
	case wild:
		return t.wild
	}
	return t.exact
}

// edit returns a tree in which the rules of a host pattern are changed.
func (t hostTree) edit(pattern string, change func(*hostRules) *hostRules) hostTree {
	name, wild := splitPattern(pattern)
	if edited := t.editBelow(name, name != "", wild, change); edited != nil {
		return *edited
	}
	return hostTree{}
}

// with and without return a tree with one object added or removed. owned is
// Policy.HostOwnership.
func (t hostTree) with(m *matcher, owned bool) hostTree {
	for _, host := range m.hosts {
		t = t.edit(host, func(h *hostRules) *hostRules { return h.with(m, owned) })
	}
	return t
}

func (t hostTree) without(m *matcher, owned bool) hostTree {
	for _, host := range m.hosts {
		t = t.edit(host, func(h *hostRules) *hostRules { return h.without(m, owned) })
	}
	return t
}

func (t *hostTree) editBelow(name string, more, wild bool, change func(*hostRules) *hostRules) *hostTree {
	var edited hostTree
	if t != nil {
		edited = *t
	}
	switch {
	case more:
		left, label, more := cutLastLabel(name)
		hash := hashOf(label)
		child, _ := edited.below.get(hash, label)
		if child = child.editBelow(left, more, wild, change); child == nil {
			edited.below = edited.below.without(hash, label)
		} else {
			edited.below = edited.below.with(hash, label, child)
		}
	case wild:
		edited.wild = change(edited.wild)
	default:
		edited.exact = change(edited.exact)
	}
	if edited.exact == nil && edited.wild == nil && edited.below.len == 0 {
		return nil
	}
	return &edited
}

// patterns yields every host pattern with rules below a name, *.<name> included and the
// name itself not. t is the tree of the name, the root if it is empty.
func (t *hostTree) patterns(name string, yield func(pattern string)) {
	if t == nil {
		return
	}
	if t.wild != nil {
		if name == "" {
			yield(anyHost)
		} else {
			yield("*." + name)
		}
	}
	for label, child := range t.below.all() {
		whole := label
		if name != "" {
			whole = label + "." + name
		}
		if child.exact != nil {
			yield(whole)
		}
		child.patterns(whole, yield)
	}
}
