package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every check has a name of its own, says what ✓ means, and looks at something.
func TestChecksAreDeclared(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks {
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(c.id) || seen[c.id] {
			t.Errorf("check %q: want a kebab-case name of its own", c.id)
		}
		seen[c.id] = true
		if c.means == "" || strings.ContainsAny(c.means, "|\n") {
			t.Errorf("check %s means %q: want the text of a cell of a table", c.id, c.means)
		}
		if c.installation == nil && c.rollout == nil {
			t.Errorf("check %s looks at nothing", c.id)
		}
	}
}

// Every check makes a result in the clusters of these tests, so that none is declared
// and never made.
func TestChecksAreMade(t *testing.T) {
	made := map[string]bool{}
	all := healthy()
	all.withProxies()
	all.plugins[0].download = &downloaded{sum: sum}
	for _, result := range slices.Concat(look(all), look(healthyAgent()), look(healthyGateway()), look(healthySteps()), look(healthyRegions()), lookAtManifests("-", []byte(rolloutManifest), "shop")) {
		made[result.Check] = true
	}
	for _, c := range checks {
		if !made[c.id] {
			t.Errorf("check %s makes no result", c.id)
		}
	}
}
