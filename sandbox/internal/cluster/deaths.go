package cluster

import "fmt"

// deathsSince describes each component that has died since the status before, or is
// dead in after: how it ended, and the end of its log. A nil before stands for the
// start of the sandbox.
func deathsSince(before, after *Status) []string {
	known := map[string]int{}
	if before != nil {
		for _, c := range before.Components {
			known[c.Name] = c.Deaths
		}
	}
	var deaths []string
	for _, c := range after.Components {
		switch n := c.Deaths - known[c.Name]; {
		case n > 0:
			deaths = append(deaths, fmt.Sprintf("component %s died %d times during the tests and no test stopped it; the last time it %s, and its log ended:\n%s",
				c.Name, n, c.LastDeath, c.LastLog))
		case c.State == StateDied:
			deaths = append(deaths, fmt.Sprintf("component %s does not run", c.Name))
		}
	}
	return deaths
}
