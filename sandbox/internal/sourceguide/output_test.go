package sourceguide_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
)

func TestCompare(t *testing.T) {
	steps, err := sourceguide.Steps()
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for _, step := range steps {
		outputs[step.Name] = step.Output
	}
	for name, tc := range map[string]struct {
		of       string
		old, new string
		differs  bool
	}{
		"numbers of pods and ages":     {"look", "2         2         2            2           17s", "4         5         1            4           4m17s", false},
		"a cell that is filled":        {"look", "rollouts-demo                                    2 ", "rollouts-demo   Rollout/demo     rollouts-demo   2 ", false},
		"another trigger":              {"look", "kedify-http  ", "external-push", false},
		"a cell that is empty":         {"look", "True    True ", "True         ", true},
		"another bound":                {"look", "rollouts-demo     2     10", "rollouts-demo     1     10", true},
		"another name":                 {"look", "demo                                    2 ", "other                                   2 ", true},
		"a column less":                {"look", "FALLBACK   ", "           ", true},
		"a row more":                   {"look", "   2           17s\n", "   2           17s\nrollout.argoproj.io/other           2         2         2            2           17s\n", true},
		"an object that is missing":    {"look", "\nscaledobject.keda.sh/", "\n", true},
		"another hash":                 {"watch", "85b6995845", "5458bdcc59", false},
		"more pods":                    {"watch", "      └──□", "      ├──□ rollouts-demo-759566c557-22222  Pod         ✔ Running  8s     ready:1/1\n      └──□", false},
		"colours":                      {"watch", "✔ Healthy  4m48s", "\x1b[32m✔ Healthy\x1b[0m  4m48s", false},
		"a pod that does not run":      {"watch", "✔ Running  3m2s ", "◌ Pending  3m2s ", true},
		"another weight":               {"watch", "ActualWeight:  20", "ActualWeight:  0", true},
		"another weight of a Service":  {"split", "weight: 80", "weight: 70", true},
		"other numbers of answers":     {"count", "  42 ", "  40 ", false},
		"answers of one version":       {"count", "   8 \"yellow\"\n", "", true},
		"a request that is unanswered": {"count", "  42 \"blue\"\n", "   1 \n  41 \"blue\"\n", true},
		"other words":                  {"promote", "promoted", "aborted", true},
	} {
		t.Run(name, func(t *testing.T) {
			shown := outputs[tc.of]
			if strings.Count(shown, tc.old) == 0 {
				t.Fatalf("%q is not in:\n%s", tc.old, shown)
			}
			printed := strings.Replace(shown, tc.old, tc.new, 1)
			if err := sourceguide.Compare(shown, printed); (err != nil) != tc.differs {
				t.Errorf("Compare returns %v for:\n%s", err, printed)
			}
		})
	}
}

// docs/tutorials/kedify.md has every command of the guide, in the guide's order, under the
// same names.
func TestTheTutorialHasTheGuidesCommands(t *testing.T) {
	text, err := os.ReadFile("../../../docs/tutorials/kedify.md")
	if err != nil {
		t.Fatal(err)
	}
	fences, err := page.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	guide, err := sourceguide.Steps()
	if err != nil || len(guide) != 14 {
		t.Fatalf("there are %d steps, want 14: %v", len(guide), err)
	}
	rest := page.Steps(fences)
	for _, want := range guide {
		i := slices.IndexFunc(rest, func(s page.Step) bool { return s.Name == want.Name })
		if i < 0 {
			t.Fatalf("there is no {%s} in the tutorial, or not in the guide's order", want.Name)
		}
		if diff := cmp.Diff(want.Commands, rest[i].Commands); diff != "" {
			t.Errorf("{%s} (-guide +tutorial):\n%s", want.Name, diff)
		}
		rest = rest[i+1:]
	}
}

// The plugin of the guide's manifest can be replaced.
func TestPlugin(t *testing.T) {
	text := sourceguide.Plugin("http://here/plugin", strings.Repeat("0", 64))
	if !strings.Contains(text, `location: "http://here/plugin"`) || strings.Contains(text, "v0.0.1") || strings.Contains(text, "6cd759") {
		t.Errorf("the registration is not that of another plugin:\n%s", text)
	}
}
