package routes

// load counts the matches of wildcards for a budget, in a tree of names with a level
// per label from the right. A host lists the matches of all wildcards above it, so that
// nested wildcards add up. Any host, which is the root, has a budget of its own. The
// zero load is empty.
type load struct {
	own   int // matches of the wildcard of this name
	most  int // own, plus the most that a host lists of wildcards below this name
	below map[string]*load
}

// fits tells whether no host would list more than room with this many more matches of a
// wildcard.
func (l *load) fits(wildcard string, matches, room int) bool {
	name, _ := splitPattern(wildcard)
	if name == "" {
		return l.own+matches <= room
	}
	above := 0
	for more := true; more; {
		var label string
		name, label, more = cutLastLabel(name)
		next := l.below[label]
		if next == nil {
			return above+matches <= room
		}
		if l = next; more {
			above += l.own
		}
	}
	return above+l.most+matches <= room
}

// add adds matches of a wildcard; a negative number removes them.
func (l *load) add(wildcard string, matches int) {
	name, _ := splitPattern(wildcard)
	l.addBelow(name, name != "", matches)
}

func (l *load) addBelow(name string, more bool, matches int) {
	if !more {
		l.own, l.most = l.own+matches, l.most+matches
		return
	}
	left, label, more := cutLastLabel(name)
	child := l.below[label]
	if child == nil {
		if l.below == nil {
			l.below = make(map[string]*load)
		}
		child = &load{}
		l.below[label] = child
	}
	before, deepest := child.most, l.most-l.own
	child.addBelow(left, more, matches)
	if child.most == 0 {
		delete(l.below, label)
	}
	switch {
	case child.most >= deepest:
		deepest = child.most
	case before == deepest: // child had the most, and has less now
		deepest = l.mostBelow(deepest)
	}
	l.most = l.own + deepest
}

// mostBelow returns the most of all children, none of which has more than before.
func (l *load) mostBelow(before int) (most int) {
	for _, child := range l.below {
		if most = max(most, child.most); most == before {
			break
		}
	}
	return most
}
