// Package gatewayapi is the Argo Rollouts traffic router for routes of the
// Gateway API. This part of it is pure: it reads a Rollout's configuration, and
// decides what a route should be, from the route as it is and one call of Argo
// Rollouts. It makes no request and knows no time.
//
// # What is split
//
// A rule is split if it holds a backendRef to the stable and one to the canary
// Service: of group "" and kind Service, in the Rollout's namespace, each once.
// The defaults are the CRD's: an absent group is "", an absent kind is Service,
// an absent weight is 1, and an absent namespace is the route's own. Canary gets
// the weight, stable what canary and experiments leave of the maximum; other
// backends keep their weights. A rule with only one of both is left alone.
//
// # Rest
//
// A route at rest is as its user had it. The first write remembers a rule's
// weights if canary has 0 and stable more than 0, else all for stable; weight 0
// restores them. With pingPong, whose Services change sides, rest means all for
// the Service that is stable now; where that is what was remembered, it is
// restored. A rule with canary 0 and stable above 0, of which nothing is
// remembered, is at rest whatever its numbers.
//
// # State
//
// All that a later call needs is on the route, in Annotation: calls are separate,
// and the plugin may be another process by then. It has an entry for each Rollout
// whose traffic is not at rest, and goes with the last one. An entry has the rules
// that are the Rollout's with their weights at rest, the experiments, and the
// header and mirror routes with the names and fingerprints of the rules made for
// them.
//
// # Which rule is which
//
// The rules of a route are a list without keys. A rule is known again by its name,
// else by the fingerprint of what it matches, mirrors to and refers to, without
// weights and experiments: others may add, remove, reorder and edit rules in the
// middle of a canary, and CRDs older than Gateway API v1.4 drop names. Where both
// fail and one rule is left on either side, those are taken for the same. Where
// that fails too, what was remembered is lost, and rest means the maximum for
// stable and 0 for canary.
//
// # Header and mirror routes
//
// For each rule that is split, a header or mirror route makes a rule with all that
// it has, whose matches are what both ask for. Managed rules stand at the end, by
// Rollout and then in the order of managedRoutes. One that is not more specific than
// its source stands right before it: of equals the first wins. Where a rule has
// several matches, and a managed rule would have some of them unchanged, those are
// left out and warned of: Contour refuses the whole of a rule that has a match of an
// earlier one, and its requests would be lost. What would take requests from another
// rule that they reach now is left out, or, where it is only some of them, warned of.
//
// # One call
//
// SetWeight, SetHeaderRoute, SetMirrorRoute and RemoveManagedRoutes return a
// Decision. Its Route is to be written if it has Changed, on condition that the route
// still is as it was read. Its Managed, together with the weights of the last
// SetWeight, is what self-healing hands to Apply.
package gatewayapi
