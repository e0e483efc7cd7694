package gatewayapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// followedRoute is a route of generation 3 whose parent has reported conditions, each as
// "Type=Status@observedGeneration Reason: message".
func followedRoute(t *testing.T, conditions ...string) followed {
	var all []string
	for _, c := range conditions {
		head, message, _ := strings.Cut(c, ": ")
		head, reason, _ := strings.Cut(head, " ")
		kind, rest, _ := strings.Cut(head, "=")
		status, observed, _ := strings.Cut(rest, "@")
		text := fmt.Sprintf(`{type: %s, status: "%s", reason: "%s", message: "%s"`, kind, status, reason, message)
		if observed != "" {
			text += ", observedGeneration: " + observed
		}
		all = append(all, text+"}")
	}
	reports := "[]"
	if len(conditions) > 0 {
		reports = `[{parentRef: {name: public}, controllerName: example.com/c, conditions: [` + strings.Join(all, ", ") + `]}]`
	}
	return followed{route: routeOf(t, parentsRoute("[{name: public}]", reports))}
}

// said is a verdict as text.
func said(v verdict) string {
	var text []string
	for name, parents := range map[string][]Parent{"refused": v.refused, "awaited": v.awaited, "silent": v.silent, "excused": v.excused} {
		if len(parents) > 0 {
			text = append(text, name)
		}
	}
	for name, is := range map[string]bool{"held": v.holds(), "soon": v.soon, "overdue": v.overdue} {
		if is {
			text = append(text, name)
		}
	}
	return strings.Join(text, " ")
}

func TestVerdicts(t *testing.T) {
	const (
		accepted, resolved  = "Accepted=True@3", "ResolvedRefs=True@3"
		acceptedBefore      = "Accepted=True@2"
		resolvedBefore      = "ResolvedRefs=True@2"
		unresolved          = "ResolvedRefs=False@3 BackendNotFound: others"
		unresolvedBefore    = "ResolvedRefs=False@2 BackendNotFound: others"
		dropped, fallenBack = "PartiallyInvalid=True@3 UnsupportedValue: Dropped Rule others", "PartiallyInvalid=True@3 UnsupportedValue: Fall Back others"
		late, veryLate      = reportPatience + time.Second, behindPatience + time.Second
	)
	before := func(conditions ...string) []refusal { return refusalsOf(followedRoute(t, conditions...).route) }
	unreported := func(age time.Duration) map[parentKey]time.Time {
		since := time.Now().Add(-age)
		return map[parentKey]time.Time{{"Gateway demo/public", ""}: since, {"Gateway demo/public", "example.com/c"}: since}
	}
	for name, tc := range map[string]struct {
		conditions []string
		facts      followed
		want       string
	}{
		"accepted": {[]string{accepted, resolved}, followed{age: veryLate}, ""},
		"refused":  {[]string{accepted, unresolved}, followed{}, "refused held"},

		// A parent that has followed the route is waited for, however long that takes.
		"behind":                            {[]string{acceptedBefore, resolvedBefore}, followed{}, "awaited held soon"},
		"behind for 30 s":                   {[]string{acceptedBefore, resolvedBefore}, followed{age: late}, "awaited held"},
		"behind for a minute":               {[]string{acceptedBefore, resolvedBefore}, followed{age: veryLate}, "awaited held overdue"},
		"behind with one":                   {[]string{accepted, resolvedBefore}, followed{age: veryLate}, "awaited held overdue"},
		"behind with the only one":          {[]string{acceptedBefore}, followed{age: veryLate}, "awaited held overdue"},
		"behind after it was silent":        {[]string{acceptedBefore, resolvedBefore}, followed{age: late, unreported: unreported(late)}, "awaited held"},
		"not decided":                       {[]string{"Accepted=Unknown@3", resolved}, followed{age: late}, "awaited held"},
		"refused before":                    {[]string{accepted, unresolvedBefore}, followed{}, "awaited held soon"},
		"refused before for 30 s":           {[]string{accepted, unresolvedBefore}, followed{age: late}, "awaited held"},
		"refused, whatever generation":      {[]string{"Accepted=True", "ResolvedRefs=False BackendNotFound: others"}, followed{age: veryLate}, "awaited held overdue"},
		"refused, and behind with the rest": {[]string{acceptedBefore, unresolved}, followed{}, "refused held"},

		// By time passes one that has never reported, or never on a generation.
		"unreported":                         {nil, followed{}, "awaited held"},
		"unreported for 30 s":                {nil, followed{age: late}, "silent"},
		"unreported as before":               {nil, followed{unreported: unreported(late)}, "silent"},
		"no observedGeneration":              {[]string{"Accepted=True", "ResolvedRefs=True"}, followed{}, "awaited held"},
		"no observedGeneration for 30 s":     {[]string{"Accepted=True", "ResolvedRefs=True"}, followed{age: late}, "silent"},
		"observedGeneration 0 for 30 s":      {[]string{"Accepted=True@0", "ResolvedRefs=True@0"}, followed{age: late}, "silent"},
		"one without it for 30 s":            {[]string{accepted, "ResolvedRefs=True"}, followed{age: late}, "silent"},
		"one is never reported, for 30 s":    {[]string{accepted}, followed{age: late}, "silent"},
		"no observedGeneration, as before":   {[]string{"Accepted=True", "ResolvedRefs=False BackendNotFound: others"}, followed{age: late, before: before("ResolvedRefs=False BackendNotFound: others")}, "silent"},
		"no observedGeneration, and invalid": {[]string{"Accepted=True", "ResolvedRefs=True", "PartiallyInvalid=True X: Dropped Rule"}, followed{age: late}, "refused held"},

		// What was there before is no refusal, unless it is about the Rollout's own.
		"as before":                       {[]string{accepted, unresolved}, followed{before: before(unresolved)}, "excused"},
		"as before, and behind":           {[]string{accepted, unresolvedBefore}, followed{before: before(unresolved), age: late}, "awaited held"},
		"as before, but ours":             {[]string{accepted, unresolved}, followed{before: before(unresolved), own: []string{"Service gone"}}, "refused held"},
		"as before with another message":  {[]string{accepted, unresolved + " and ours"}, followed{before: before(unresolved)}, "refused held"},
		"as before for another reason":    {[]string{accepted, "ResolvedRefs=False@3 RefNotPermitted: others"}, followed{before: before(unresolved)}, "refused held"},
		"not accepted, as before":         {[]string{"Accepted=False@3 NoMatchingParent: x", resolved}, followed{before: before("Accepted=False@3 NoMatchingParent: x")}, "refused held"},
		"as before in another order":      {[]string{accepted, "ResolvedRefs=False@3 R: rule 4: no Service b, rule 3: no Service a-1"}, followed{before: before("ResolvedRefs=False@3 R: rule 2: no Service a-1, rule 3: no Service b")}, "excused"},
		"less than before":                {[]string{accepted, "ResolvedRefs=False@3 R: rule 2: no Service b"}, followed{before: before("ResolvedRefs=False@3 R: rule 2: no Service a-1, rule 3: no Service b")}, "excused"},
		"another name than before":        {[]string{accepted, "ResolvedRefs=False@3 R: no Service a-2"}, followed{before: before("ResolvedRefs=False@3 R: no Service a-1")}, "refused held"},
		"dropped, new":                    {[]string{accepted, resolved, dropped}, followed{}, "refused held"},
		"dropped, as before":              {[]string{accepted, resolved, dropped}, followed{before: before(dropped)}, "excused"},
		"dropped, as before, but ours":    {[]string{accepted, resolved, dropped}, followed{before: before(dropped), own: []string{"Service gone"}}, "refused held"},
		"dropped other rules than before": {[]string{accepted, resolved, dropped + " and ours"}, followed{before: before(dropped)}, "refused held"},
		"dropped at another generation":   {[]string{accepted, resolved, "PartiallyInvalid=True@2 UnsupportedValue: Dropped Rule"}, followed{}, ""},
		"not invalid":                     {[]string{accepted, resolved, "PartiallyInvalid=False@3 X: x"}, followed{}, ""},
		"fallen back":                     {[]string{acceptedBefore, resolvedBefore, fallenBack}, followed{}, "refused held"},
		"fallen back, as before":          {[]string{acceptedBefore, resolved, fallenBack}, followed{before: before(fallenBack)}, "refused held"},
		"both as before":                  {[]string{accepted, unresolved, dropped}, followed{before: before(unresolved, dropped)}, "excused"},
		"one of both as before":           {[]string{accepted, unresolved, dropped}, followed{before: before(unresolved)}, "refused held"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.facts.unreported == nil {
				tc.facts.unreported = unreported(tc.facts.age)
			}
			tc.facts.route = followedRoute(t, tc.conditions...).route
			got := strings.Fields(said(verdictOf(tc.facts)))
			if diff := cmp.Diff(sorted(strings.Fields(tc.want)), sorted(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, " ")
}

// A route that is created anew counts as new, even if it has the same generation as
// before.
func TestARouteMadeAnewIsNotLate(t *testing.T) {
	var r reports
	route := httpRoute("app")
	route.SetUID("u-1")
	route.SetGeneration(2)
	if said := r.judge(refOf(route), followed{route: route}); len(said.awaited) != 1 {
		t.Errorf("a new route: %+v", said)
	}
	r.backdate(reportPatience + time.Second)
	if said := r.judge(refOf(route), followed{route: route}); len(said.silent) != 1 {
		t.Errorf("an old route: %+v", said)
	}
	route.SetUID("u-2")
	if said := r.judge(refOf(route), followed{route: route}); len(said.awaited) != 1 {
		t.Errorf("a route that was created anew: %+v", said)
	}
}

// A parent that was not waited for at one generation is not waited for at the next, until it
// reports.
func TestSilentParents(t *testing.T) {
	var r reports
	route := httpRoute("app")
	generation := func(number int64) {
		route.SetGeneration(number)
	}
	report := func(observed int64, types ...string) {
		conditions := []any{}
		for _, kind := range types {
			conditions = append(conditions, map[string]any{"type": kind, "status": "True", "observedGeneration": observed})
		}
		route.Object["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef": map[string]any{"name": "public"}, "controllerName": "example.com/gateway", "conditions": conditions,
		}}}
	}
	want := func(what string, silent, awaited int) {
		t.Helper()
		said := r.judge(refOf(route), followed{route: route})
		if len(said.silent) != silent || len(said.awaited) != awaited {
			t.Errorf("%s: %+v", what, said)
		}
	}
	generation(1)
	report(1, "Accepted")
	want("one condition is never reported", 0, 1)
	r.backdate(reportPatience + time.Second)
	want("after a while", 1, 0)
	generation(2)
	want("at the next generation the other is behind", 0, 1)
	report(2, "Accepted")
	want("and has come", 1, 0)
	report(2, "Accepted", "ResolvedRefs")
	want("both have come", 0, 0)
	generation(3)
	delete(route.Object, "status")
	want("and never again", 0, 1)
}

// A route that something writes again and again is not waited for longer than another.
func TestSilentParentOfARouteThatChanges(t *testing.T) {
	var r reports
	route := httpRoute("app")
	for generation, want := range []string{"awaited held", "awaited held", "silent"} {
		route.SetGeneration(int64(generation) + 1)
		got := strings.Fields(said(r.judge(refOf(route), followed{route: route})))
		if diff := cmp.Diff(want, sorted(got)); diff != "" {
			t.Errorf("generation %d (-want +got):\n%s", generation, diff)
		}
		r.backdate(2 * reportPatience / 3)
	}
}
