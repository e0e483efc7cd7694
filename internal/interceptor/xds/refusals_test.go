package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// refusing returns a stream that has only what refusals needs.
func refusing(address string) *stream { return &stream{address: address} }

func claimOf(by *stream, object, reason string) claim {
	name := types.NamespacedName{Namespace: "demo", Name: object}
	return claim{by, subjectOfClaim{object: name, kind: rds}, routes.Problem{Object: name, Reason: RefusedByEnvoy, Message: by.address + ": " + reason}}
}

// An object has one Problem, however many Envoys refuse it, until none does.
func TestOneProblemOfAnObject(t *testing.T) {
	r, told := newRefusals(), &told{}
	r.tell = told.tell
	first, second := refusing("10.0.0.1"), refusing("10.0.0.2")
	says := func(want string) {
		t.Helper()
		var all []string
		for _, p := range told.problems() {
			all = append(all, p.Message)
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("told %q; expected %q", got, want)
		}
	}
	r.set(claimOf(first, "app", "no"))
	r.set(claimOf(second, "app", "no"))
	says("10.0.0.1: no")
	r.set(claimOf(first, "app", "never"))
	says("10.0.0.2: no") // this refusal still stands
	r.remove(second, claimOf(second, "app", "").what)
	says("10.0.0.1: never")
	if n := r.objects(); n != 1 {
		t.Errorf("%d objects are refused", n)
	}
	r.remove(first, claimOf(first, "app", "").what)
	says("")
	if len(r.claims)+len(r.told) != 0 {
		t.Errorf("%v and %v are kept", r.claims, r.told)
	}
}

// An address that refuses many objects, for many reasons, causes few Problems, and does
// not suppress those of other addresses.
func TestOneAddressCausesFewProblems(t *testing.T) {
	r, told, now := newRefusals(), &told{}, time.Unix(1, 0)
	r.tell, r.now = told.tell, func() time.Time { return now }
	caused := make(map[routes.Problem]bool)
	r.tell = func(opened, resolved []routes.Problem) {
		for _, p := range opened {
			caused[p] = true
		}
		told.tell(opened, resolved)
	}
	hostile, honest := refusing("10.0.0.1"), refusing("10.0.0.2")
	for i := range 1000 {
		by := hostile
		if i%2 == 0 {
			by = refusing("10.0.0.1") // on another stream
		}
		r.set(claimOf(by, fmt.Sprint("app", i%50), fmt.Sprint("reason ", i)))
	}
	if len(caused) != maxTold {
		t.Errorf("one address caused %d Problems; expected %d", len(caused), maxTold)
	}
	r.set(claimOf(honest, "app49", "no"))
	if !caused[claimOf(honest, "app49", "no").problem] {
		t.Error("another address causes none")
	}
	now = now.Add(toldTime)
	r.set(claimOf(hostile, "app49", "later"))
	r.remove(honest, claimOf(honest, "app49", "").what)
	if len(caused) != maxTold+2 {
		t.Errorf("%d Problems an hour later; expected %d", len(caused), maxTold+2)
	}
	for i := range 3 * maxTellers {
		r.set(claimOf(refusing(fmt.Sprint("10.1.", i/250, ".", i%250)), fmt.Sprint("other", i), "no"))
	}
	if len(r.tellers) > maxTellers {
		t.Errorf("%d addresses are kept; expected %d at most", len(r.tellers), maxTellers)
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(" a\n\tb\x1b[31m\x00c "); got != "a b [31m c" {
		t.Errorf("%q", got)
	}
	if got := oneLine(strings.Repeat("ä", maxReason)); len(got) > maxReason+len("...") || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%q of %d bytes", got, len(got))
	}
}
