package sourceguide_test

import (
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/sourceguide"
)

func TestCompare(t *testing.T) {
	outputs := map[string]string{}
	for _, step := range sourceguide.Steps("") {
		for _, part := range []string{"get rollout,httpso", "-w", "jsonpath", "curl", "promote"} {
			if strings.Contains(step.Commands, part) && step.Output != "" {
				outputs[part] = step.Output
			}
		}
	}
	for name, tc := range map[string]struct {
		of       string
		old, new string
		differs  bool
	}{
		"numbers of pods and ages":     {"get rollout,httpso", "2         2         2            2           17s", "4         5         1            4           4m17s", false},
		"a cell that is filled":        {"get rollout,httpso", "rollouts-demo                                    2 ", "rollouts-demo   Rollout/demo     rollouts-demo   2 ", false},
		"another trigger":              {"get rollout,httpso", "kedify-http  ", "external-push", false},
		"a cell that is empty":         {"get rollout,httpso", "True    True ", "True         ", true},
		"another bound":                {"get rollout,httpso", "rollouts-demo     2     10", "rollouts-demo     1     10", true},
		"another name":                 {"get rollout,httpso", "demo                                    2 ", "other                                   2 ", true},
		"a column less":                {"get rollout,httpso", "FALLBACK   ", "           ", true},
		"a row more":                   {"get rollout,httpso", "   2           17s\n", "   2           17s\nrollout.argoproj.io/other           2         2         2            2           17s\n", true},
		"an object that is missing":    {"get rollout,httpso", "\nscaledobject.keda.sh/", "\n", true},
		"another hash":                 {"-w", "85b6995845", "5458bdcc59", false},
		"more pods":                    {"-w", "      └──□", "      ├──□ rollouts-demo-759566c557-22222  Pod         ✔ Running  8s     ready:1/1\n      └──□", false},
		"colours":                      {"-w", "✔ Healthy  4m48s", "\x1b[32m✔ Healthy\x1b[0m  4m48s", false},
		"a pod that does not run":      {"-w", "✔ Running  3m2s ", "◌ Pending  3m2s ", true},
		"another weight":               {"-w", "ActualWeight:  20", "ActualWeight:  0", true},
		"another weight of a Service":  {"jsonpath", "weight: 80", "weight: 70", true},
		"other numbers of answers":     {"curl", "  42 ", "  40 ", false},
		"answers of one version":       {"curl", "   8 \"yellow\"\n", "", true},
		"a request that is unanswered": {"curl", "  42 \"blue\"\n", "   1 \n  41 \"blue\"\n", true},
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

// Every manifest and command of the guide is there, and its plugin can be replaced.
func TestSteps(t *testing.T) {
	if got := len(sourceguide.Steps("")); got != 14 {
		t.Errorf("there are %d steps, want 14", got)
	}
	text := sourceguide.Plugin("http://here/plugin", strings.Repeat("0", 64))
	if !strings.Contains(text, `location: "http://here/plugin"`) || strings.Contains(text, "v0.0.1") || strings.Contains(text, "6cd759") {
		t.Errorf("the registration is not that of another plugin:\n%s", text)
	}
}
