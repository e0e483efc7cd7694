package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// The page on scaling lists every flag and every metric of the scaler.
func TestScalingListsFlagsAndMetrics(t *testing.T) {
	page := readText(t, "scaling.md")
	for what, in := range map[string]struct{ folder, pattern, row string }{
		"flag":   {"cmd/scaler", `Var\(&o\.\w+, "([a-z-]+)"`, "| `--NAME` |"},
		"metric": {"internal/scaler/server", `Name: +"(scaler_\w+)"`, "| `NAME` |"},
	} {
		named := regexp.MustCompile(in.pattern).FindAllStringSubmatch(interceptorSources(t, in.folder), -1)
		if len(named) == 0 {
			t.Errorf("%s has no %s", in.folder, what)
		}
		for _, match := range named {
			if row := strings.Replace(in.row, "NAME", match[1], 1); !strings.Contains(page, row) {
				t.Errorf("scaling.md does not list the %s %s", what, match[1])
			}
		}
	}
}
