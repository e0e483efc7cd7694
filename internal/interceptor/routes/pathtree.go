package routes

import "strings"

// pathTree holds the rules of one host by path prefix, with a level per segment: a
// lookup visits the root and at most one node per segment of the path, however many
// prefixes there are. It is immutable; nil is empty.
type pathTree struct {
	rules rules
	below dict[*pathTree]
}

// find returns the first object that wants a request, longest prefix first.
// path is what follows the prefix of t: nothing, or a slash and more.
func (t *pathTree) find(path string, header map[string][]string) *matcher {
	if path != "" && t.below.len > 0 {
		segment, rest := nextSegment(path)
		if child, found := t.below.get(hashOf(segment), segment); found {
			if m := child.find(rest, header); m != nil {
				return m
			}
		}
	}
	return t.rules.find(header)
}

// nextSegment cuts "/foo/bar" into "foo" and "/bar".
func nextSegment(path string) (segment, rest string) {
	path = path[1:]
	if slash := strings.IndexByte(path, '/'); slash >= 0 {
		return path[:slash], path[slash:]
	}
	return path, ""
}

// at returns the rules of a prefix in the form of pathPrefix.
func (t *pathTree) at(prefix string) *rules {
	if prefix == anyPath {
		prefix = ""
	}
	for t != nil && prefix != "" {
		var segment string
		segment, prefix = nextSegment(prefix)
		t, _ = t.below.get(hashOf(segment), segment)
	}
	if t == nil {
		return &rules{}
	}
	return &t.rules
}

// edit returns a tree in which the rules of a prefix are changed.
func (t *pathTree) edit(prefix string, change func(*rules)) *pathTree {
	if prefix == anyPath {
		prefix = ""
	}
	var edited pathTree
	if t != nil {
		edited = *t
	}
	if prefix == "" {
		change(&edited.rules)
	} else {
		segment, rest := nextSegment(prefix)
		hash := hashOf(segment)
		child, _ := edited.below.get(hash, segment)
		if child = child.edit(rest, change); child == nil {
			edited.below = edited.below.without(hash, segment)
		} else {
			edited.below = edited.below.with(hash, segment, child)
		}
	}
	if edited.rules.empty() && edited.below.len == 0 {
		return nil
	}
	return &edited
}

// editAll returns a tree in which the rules of several prefixes are changed.
func (t *pathTree) editAll(prefixes []string, change func(*rules)) *pathTree {
	for _, prefix := range prefixes {
		t = t.edit(prefix, change)
	}
	return t
}

// prefixed is the rules of one prefix.
type prefixed struct {
	prefix string
	rules  *rules
}

// collect appends all rules, each with its prefix.
func (t *pathTree) collect(prefix string, all []prefixed) []prefixed {
	if t == nil {
		return all
	}
	if !t.rules.empty() {
		whole := prefix
		if whole == "" {
			whole = anyPath
		}
		all = append(all, prefixed{whole, &t.rules})
	}
	for segment, child := range t.below.all() {
		all = child.collect(prefix+"/"+segment, all)
	}
	return all
}
