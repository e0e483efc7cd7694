package xds

import (
	"fmt"
	"testing"
)

func TestJournal(t *testing.T) {
	var j journal
	n := 0
	add := func(many int) {
		changes := make([]change, many)
		for i := range changes {
			changes[i].cluster = fmt.Sprint(n)
			n++
		}
		j.add(changes...)
	}
	place := uint64(0)
	for _, many := range []int{1, 0, 5, journalLength, journalLength / 2, journalLength, 3, 3 * journalLength, 1} {
		add(many)
		if j.end() != uint64(n) {
			t.Fatalf("the journal of %d changes ends at %d", n, j.end())
		}
		got, complete := j.since(place)
		if complete != (n-int(place) <= len(j.changes)) {
			t.Errorf("%d changes since %d: complete %v", n-int(place), place, complete)
		}
		if want := n - int(place); complete && len(got) != want {
			t.Errorf("%d changes since %d; expected %d", len(got), place, want)
		}
		for i, c := range got {
			if c.cluster != fmt.Sprint(int(place)+i) {
				t.Fatalf("change %d is %s", int(place)+i, c.cluster)
			}
		}
		if many > 0 && many <= journalLength && !complete {
			t.Errorf("%d changes are not all known", many)
		}
		if len(j.changes) > 2*journalLength {
			t.Errorf("%d changes are kept", len(j.changes))
		}
		place = j.end()
	}
	if _, complete := j.since(j.end() + 1); complete {
		t.Error("a place that is not there yet is known")
	}
	if _, complete := j.since(0); complete {
		t.Error("the first change is still known")
	}
}
