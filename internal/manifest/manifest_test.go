package manifest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocuments(t *testing.T) {
	const file = `# a comment
kind: A
---
- [
---
kind: ThingList
items:
- kind: B
- kind: C
---
{"kind": "D"}
`
	var got []string
	for _, document := range Documents([]byte(file)) {
		got = append(got, fmt.Sprintf("%d %s %t", document.Number, document.Objects, document.Err != nil))
	}
	want := []string{`1 [{"kind":"A"}] false`, `2 [] true`, `3 [{"kind":"B"} {"kind":"C"}] false`, `4 [{"kind":"D"}] false`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
