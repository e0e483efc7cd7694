package routes

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// ten allows ten matches for each namespace.
func ten() Policy {
	return Policy{MaxMatchesPerNamespace: 10, MaxWildcardMatchesPerNamespace: 10, MaxWildcardMatches: 20}
}

// Past the limit the newest objects of a namespace are not served, and nothing changes
// for other namespaces. There is room again when older objects shrink or go.
func TestTheNewestObjectsPastTheMatchesOfANamespaceAreNotServed(t *testing.T) {
	w := newTenants(t, ten())
	w.set("a/first", []string{"a.example.com", "b.example.com"}, numbered("/a%d", 3))
	w.set("a/second", numbered("s%d.example.com", 4), nil)
	w.set("a/third", []string{"third.example.com"}, nil)
	w.set("b/b", numbered("b%d.example.org", 10), nil)
	w.goes(map[string]string{"b.example.com/a2": "a/first", "s3.example.com/": "a/second", "third.example.com/": "nobody", "b9.example.org/": "b/b"})
	w.tells("a/third", OverBudget, "more than 10 matches", "--max-matches-per-namespace", "asks for 1;", "served nothing")
	if w.Table().Route(namedObject("a/third")) != nil {
		t.Error("an object that is not served has a route")
	}
	if got := w.MostMatches(); got != 11 {
		t.Errorf("the busiest namespace asks for %d matches, want 11", got)
	}

	// A new object is older than no other, and one that is served keeps its place.
	w.set("a/fourth", []string{"a.example.com"}, below)
	w.goes(map[string]string{"a.example.com/below": "nobody", "b.example.com/a2": "a/first", "s3.example.com/": "a/second", "third.example.com/": "nobody"})
	// An older object grows: the newest that was served gives way.
	w.set("a/first", []string{"a.example.com", "b.example.com"}, numbered("/a%d", 4))
	w.goes(map[string]string{"b.example.com/a3": "a/first", "s3.example.com/": "nobody", "third.example.com/": "a/third", "a.example.com/below": "a/fourth"})
	w.tells("a/second", OverBudget, "asks for 4;")
	w.tells("a/third", OverBudget)
	// It shrinks again, and then goes.
	w.set("a/first", []string{"a.example.com"}, root)
	w.goes(map[string]string{"a.example.com/": "a/first", "s3.example.com/": "a/second", "third.example.com/": "a/third"})
	w.tells("a/second", OverBudget)
	w.set("a/first", numbered("a%d.example.com", 10), nil)
	w.goes(map[string]string{"a9.example.com/": "a/first", "s3.example.com/": "nobody", "third.example.com/": "nobody"})
	w.delete("a/first")
	w.goes(map[string]string{"s3.example.com/": "a/second", "third.example.com/": "a/third", "a.example.com/below": "a/fourth", "b9.example.org/": "b/b"})
	if got := w.MostMatches(); got != 10 {
		t.Errorf("the busiest namespace asks for %d matches, want 10", got)
	}
}

// The last good form of an object that is malformed now counts, too. Without room it is
// lost, and from then on the object counts for nothing.
func TestTheLastGoodFormCounts(t *testing.T) {
	w := newTenants(t, ten())
	w.set("a/old", []string{"old.example.com"}, nil)
	w.set("a/bad", numbered("bad%d.example.com", 8), nil)
	w.Commit()
	w.set("a/bad", []string{"no host"}, nil)
	w.set("a/new", numbered("new%d.example.com", 2), nil)
	w.goes(map[string]string{"old.example.com/": "a/old", "bad7.example.com/": "a/bad", "new1.example.com/": "nobody"})
	w.set("a/old", numbered("old%d.example.com", 3), nil)
	w.goes(map[string]string{"old2.example.com/": "a/old", "bad7.example.com/": "nobody", "new1.example.com/": "a/new"})
	w.tells("a/bad", OverBudget, "asks for 8;")
	w.goes(map[string]string{"bad7.example.com/": "nobody", "new1.example.com/": "a/new"})
	w.tells("a/bad", OverBudget)
	if got := w.MostMatches(); got != 5 {
		t.Errorf("the namespace asks for %d matches, want 5", got)
	}
}

// An object without room takes nothing of the room for wildcards, and owns no host.
func TestAnObjectPastTheLimitTakesNothingElse(t *testing.T) {
	p := ten()
	p.HostOwnership = true
	w := newTenants(t, p)
	w.set("a/first", numbered("a%d.example.com", 10), nil)
	w.set("a/wide", []string{"*.example.org"}, numbered("/w%d", 10))
	w.set("b/b", []string{"*.example.org"}, numbered("/b%d", 10))
	w.set("c/c", []string{"*.example.com"}, numbered("/c%d", 10))
	w.goes(map[string]string{"x.example.org/w1": "nobody", "x.example.org/b9": "b/b", "x.example.com/c9": "c/c"})
	w.tells("b/b", HostNotOwned)
}

// The newest object that grows beyond the room that is left is not served at all, and is
// served as before when that is undone. An interceptor that starts now decides the same.
func TestAnObjectThatGrowsBeyondTheRoom(t *testing.T) {
	running := newTenants(t, ten())
	for _, grown := range []bool{false, true, false} {
		started := newTenants(t, ten())
		for _, w := range []*tenants{running, started} {
			w.set("a/old", numbered("old%d.example.com", 8), nil)
			w.set("a/new", []string{"new.example.com"}, nil)
			want := map[string]string{"old7.example.com/": "a/old", "new.example.com/": "a/new", "more.example.com/": "nobody"}
			if grown {
				w.set("a/new", []string{"new.example.com", "more.example.com", "most.example.com"}, nil)
				want["new.example.com/"] = "nobody"
			}
			w.goes(want)
		}
	}
}

// Ten thousand objects with two hosts each fit, and so do one with 10,000 hosts and as
// many others.
func TestTenThousandObjectsHaveRoom(t *testing.T) {
	b := NewBuilder()
	for i := range 10000 {
		o := benchObject(i, 20)
		o.Namespace = "a"
		o.Spec.Hosts = []string{fmt.Sprint("app-", i, ".example.com"), fmt.Sprint("www.app-", i, ".example.com")}
		o.Spec.PathPrefixes = nil
		b.SetHTTPScaledObject(o)
	}
	if table, _ := b.Commit(); table.Len() != 10000 {
		t.Errorf("%d objects are served", table.Len())
	}
}

// The table has a node for each label of a host and for each segment of a path prefix,
// so that an object of few hosts and paths can be large nevertheless.
func TestDeepHostsAndPathsCountMoreThanOnce(t *testing.T) {
	deep := strings.Repeat("/a", 500)
	for name, tt := range map[string]struct {
		hosts, prefixes []string
		want            int
	}{
		"nothing":          {[]string{"*"}, []string{"/"}, 1},
		"eight labels":     {[]string{"1.2.3.4.5.6.7.8", "*.2.3.4.5.6.7.8"}, []string{"/"}, 2},
		"nine labels":      {[]string{"1.2.3.4.5.6.7.8.9"}, []string{"/"}, 2},
		"eight segments":   {[]string{"a"}, []string{"/1/2/3/4/5/6/7/8"}, 1},
		"seventeen of two": {[]string{"a", "b"}, []string{"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "/a"}, 8},
	} {
		if got := countMatches(tt.hosts, tt.prefixes, nil); got != tt.want {
			t.Errorf("%s: %d matches, want %d", name, got, tt.want)
		}
	}
	w := newTenants(t, DefaultPolicy())
	w.set("a/deep", numbered("h%d.example.com", 100), numbered("/%d"+deep, 100))
	w.Commit()
	w.tells("a/deep", TooLarge, "630000 matches, above 10000")
}

// Of objects of the same second, the name decides which are served.
func TestTheNameDecidesBetweenObjectsOfOneSecond(t *testing.T) {
	for _, order := range [][]string{{"a/x", "a/y"}, {"a/y", "a/x"}} {
		w := newTenants(t, ten())
		for _, name := range order {
			w.made[name] = time.Unix(1, 0)
			w.set(name, numbered(name[2:]+"%d.example.com", 6), nil)
		}
		w.goes(map[string]string{"x1.example.com/": "a/x", "y1.example.com/": "nobody"})
	}
}
