package gatewayapi

import (
	"fmt"
	"strconv"
	"strings"
)

// ForeignError says that another Rollout splits a rule, according to the route's
// annotation. If that Rollout is gone, or does not use the route any more, Release
// takes its traffic off and frees the rule.
type ForeignError struct {
	// Route names kind, namespace and name; Rule is the rule in it.
	Route, Rule string
	// Rollout is refused, Owner has the rule; both are namespace/name.
	Rollout, Owner string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: %s is split by Rollout %s, and cannot be split by Rollout %s, too: wait for the other to finish, or give each Rollout a rule of its own", e.Route, e.Rule, e.Owner, e.Rollout)
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strconv.Quote(name)
	}
	return strings.Join(list, " or ")
}
