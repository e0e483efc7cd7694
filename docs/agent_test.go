package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page on the agent lists every flag and every reason of an Event, and no other.
func TestAgentPageListsFlagsAndReasons(t *testing.T) {
	all := func(text, pattern string) []string {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	_, events, _ := strings.Cut(readText(t, "agent.md"), "\n## Events\n")
	events, flags, _ := strings.Cut(events, "\n## Flags and ports\n")
	var reasons strings.Builder // the first cell of each row
	for _, row := range all(events, "(?m)^\\| (`[^|]+) \\|") {
		reasons.WriteString(row)
	}
	made := interceptorSources(t, "internal/agent/objects", "internal/agent/ingress", "internal/agent/kedifyproxy", "internal/agent/marks")
	for what, sets := range map[string][2][]string{
		"flags":   {all(interceptorSources(t, "cmd/agent"), `Var\(&o\.\w+, "([a-z-]+)"`), all(flags, "(?m)^\\| `--([a-z-]+)` \\|")},
		"reasons": {all(made, `(?m)^\t\w+ += "([A-Z][A-Za-z]+)"$`), all(reasons.String(), "`([A-Z][A-Za-z]+)`")},
	} {
		if diff := cmp.Diff(sets[0], sets[1]); diff != "" || len(sets[0]) < 5 {
			t.Errorf("%s (-in the program +on the page):\n%s", what, diff)
		}
	}
}
