package routes

import (
	"fmt"
	"testing"
)

func numbered(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}

// Two objects, each no larger than allowed, do not multiply: not every host of the one
// lists all paths of the other's wildcard.
func TestPathsOfAWildcardDoNotMultiplyWithHosts(t *testing.T) {
	for _, wildcard := range []string{"*", "*.com", "*.example.com"} {
		t.Run(wildcard, func(t *testing.T) {
			w := newTenants(t, DefaultPolicy())
			w.set("a/hosts", numbered("h%d.example.com", maxMatches), []string{"/own"})
			w.set("b/paths", []string{wildcard}, numbered("/p%d", maxMatches))
			w.Commit()
			// Every host lists as many matches as this one.
			if vh, _ := w.Table().VirtualHost("h7.example.com", nil); len(vh.Matches) > 1 {
				t.Errorf("each of %d hosts lists %d matches", maxMatches, len(vh.Matches))
			}
			w.tells("b/paths", OverBudget, "asks for 10000", "under "+wildcard+" would", "more than 100 matches", "--max-wildcard-matches-per-namespace", "served nothing")
			w.tells("a/hosts", OverBudget)
			if w.Table().Route(namedObject("a/hosts")) == nil {
				t.Error("the object with hosts goes for the other one")
			}
		})
	}
}

// small allows ten matches for each namespace, and 25 for all together.
func small() Policy {
	return Policy{MaxMatchesPerNamespace: 1000, MaxWildcardMatchesPerNamespace: 10, MaxWildcardMatches: 25}
}

func TestTheNewestOfANamespaceAreLeftOut(t *testing.T) {
	w := newTenants(t, small())
	w.set("a/first", nil, numbered("/a%d", 6))
	w.set("a/second", nil, numbered("/b%d", 4))
	w.set("a/third", []string{"*", "third.example.com"}, numbered("/c%d", 3))
	w.set("a/exact", []string{"exact.example.com"}, numbered("/d%d", 100)) // is charged nothing
	w.set("a/other", []string{"*.example.com"}, numbered("/e%d", 10))      // of another wildcard
	w.set("b/other", nil, numbered("/f%d", 10))
	w.goes(map[string]string{
		"x/a1": "a/first", "x/b1": "a/second", "x/c1": "nobody", "third.example.com/c1": "nobody", "exact.example.com/d9": "a/exact",
		"x.example.com/e1": "a/other", "x/f1": "b/other",
	})
	w.tells("a/third", OverBudget, "asks for 3;", "under * would", "more than 10 matches")
	if w.Table().Route(namedObject("a/third")) != nil {
		t.Error("an object that is left out has a route")
	}

	// An older object of the namespace grows.
	w.set("a/first", nil, numbered("/a%d", 7))
	w.goes(map[string]string{"x/a6": "a/first", "x/b1": "nobody", "x/c1": "a/third", "x/f1": "b/other"})
	w.tells("a/second", OverBudget, "asks for 4;")
	w.delete("a/first")
	w.goes(map[string]string{"x/b1": "a/second", "x/c1": "a/third"})
	w.tells("a/second", OverBudget)
}

// Namespaces keep the room that they have: another namespace that asks for more takes
// nothing from them, however old its objects are.
func TestNoObjectGoesBecauseOfAnotherNamespace(t *testing.T) {
	w := newTenants(t, small())
	w.set("a/old", nil, numbered("/a%d", 2))
	w.set("a/young", nil, numbered("/aa%d", 3))
	w.set("b/b", nil, numbered("/b%d", 10))
	w.set("c/c", nil, numbered("/c%d", 8))
	w.goes(map[string]string{"x/a1": "a/old", "x/aa1": "a/young", "x/b1": "b/b", "x/c1": "c/c"})
	// 23 of 25 are used; a/old is the oldest of all and wants 5 more.
	w.set("a/old", nil, numbered("/a%d", 7))
	w.goes(map[string]string{"x/a6": "a/old", "x/aa1": "nobody", "x/b1": "b/b", "x/c1": "c/c"})
	w.tells("a/young", OverBudget, "more than 25", "--max-wildcard-matches", "up to 2 namespaces")
	w.set("d/d", nil, below)
	w.goes(map[string]string{"x/below": "nobody", "x/b1": "b/b", "x/c1": "c/c"})
	// A proxy of few namespaces has room for all of their objects.
	for request, of := range map[string]Namespaces{"x/below": {"d": true}, "x/below/": {"d": true, "b": true}, "x/aa1": {"a": true}} {
		if got := w.servedIn(of, request); got == "nobody" {
			t.Errorf("in a fleet of %v, %s goes to nobody: others took its room", of, request)
		}
	}
	// Room that becomes free goes to the objects that wait for it.
	w.delete("c/c")
	w.goes(map[string]string{"x/aa1": "a/young", "x/below": "d/d"})
	w.tells("a/young", OverBudget)
	w.tells("d/d", OverBudget)
}

// An interceptor that starts gives room by age, so that all that start decide the same.
func TestRoomIsGivenByAgeAtStart(t *testing.T) {
	for _, order := range [][]string{{"a/1", "b/2", "c/3"}, {"c/3", "b/2", "a/1"}} {
		w := newTenants(t, small())
		for i, name := range []string{"a/1", "b/2", "c/3"} {
			w.made[name] = benchObject(i, 20).CreationTimestamp.Time
		}
		for _, name := range order {
			w.set(name, nil, numbered("/"+name[:1]+"%d", 10))
		}
		w.goes(map[string]string{"x/a1": "a/1", "x/b1": "b/2", "x/c1": "nobody"})
	}
}

// A change in one namespace costs no more if another namespace has many wildcards.
func TestTheBudgetCostsOtherNamespacesNothing(t *testing.T) {
	cost := func(others int) float64 {
		w := newTenants(t, DefaultPolicy())
		for i := range others {
			w.set(fmt.Sprintf("a/%d", i), nil, []string{fmt.Sprint("/", i)})
		}
		w.set("b/b", nil, []string{"/b"})
		w.Commit()
		i := 0
		return testing.AllocsPerRun(100, func() {
			i++
			w.set("b/b", nil, []string{fmt.Sprint("/b", i%2)})
			w.Commit()
		})
	}
	if few, many := cost(10), cost(2000); many > 2*few {
		t.Errorf("a change costs %v allocations beside 10 objects, %v beside 2,000", few, many)
	}
}

// Nested wildcards share one bound, as a host lists the paths of all wildcards above
// it.
func TestPathsOfNestedWildcardsDoNotMultiplyWithHosts(t *testing.T) {
	w := newTenants(t, DefaultPolicy())
	name := "example.com"
	for i := range 100 {
		w.set(fmt.Sprint("b/", i), []string{"*." + name}, numbered(fmt.Sprint("/", i, "-%d"), 100))
		name = "a." + name
	}
	w.set("a/hosts", []string{"h." + name}, []string{"/own"})
	w.Commit()
	if vh, _ := w.Table().VirtualHost("h."+name, nil); len(vh.Matches) > 101 {
		t.Errorf("a host lists %d matches", len(vh.Matches))
	}
	w.tells("b/0", OverBudget)
	w.tells("b/1", OverBudget, "more than 100")
}

// An object with nested wildcards is charged once, as a host lists it once; the
// wildcard * is charged separately.
func TestAnObjectIsChargedOnceForNestedWildcards(t *testing.T) {
	w := newTenants(t, small())
	w.set("a/nested", []string{"*.example.com", "*.a.example.com", "*.b.a.example.com"}, numbered("/a%d", 10))
	w.set("a/any", nil, numbered("/b%d", 10))
	w.set("a/beside", []string{"*.b.example.org", "*.c.example.org"}, numbered("/c%d", 10))
	w.set("a/above", []string{"*.example.org"}, below)
	w.goes(map[string]string{
		"x.b.a.example.com/a9": "a/nested", "x/b9": "a/any", "x.b.example.org/c9": "a/beside", "x.c.example.org/c9": "a/beside",
		"x.example.org/below": "nobody",
	})
	w.tells("a/above", OverBudget, "asks for 1;", "under *.example.org would")
	w.set("a/beside", []string{"*.b.example.org"}, numbered("/c%d", 9))
	w.goes(map[string]string{"x.b.example.org/below": "a/above"})
}

// An object that is served keeps its room, even if it changes, in its paths or
// otherwise, in the same Commit in which older objects of another namespace ask for
// more.
func TestObjectsThatChangeTogetherKeepTheirRoom(t *testing.T) {
	w := newTenants(t, small())
	w.set("a/a", nil, numbered("/a%d", 2))
	w.set("b/young", nil, numbered("/b%d", 10))
	w.set("c/c", nil, numbered("/c%d", 10))
	w.goes(map[string]string{"x/a1": "a/a", "x/b1": "b/young", "x/c1": "c/c"})
	w.set("a/a", nil, numbered("/a%d", 10))
	w.set("b/young", nil, numbered("/b%d", 10), "d") // an annotation
	w.set("c/c", nil, numbered("/cc%d", 10))
	w.goes(map[string]string{"x/a9": "nobody", "x/b1": "b/young", "x/cc1": "c/c"})
	w.tells("a/a", OverBudget, "asks for 10;")
}
