// Package gatewayapi is the Argo Rollouts traffic router for routes of the
// Gateway API. This part of it is pure: it reads a Rollout's configuration, and
// decides what a route should be, from the route as it is and what the calls of Argo
// Rollouts want. It makes no request and does not depend on the time.
//
// # What is split
//
// A rule is split if it holds a backendRef to the stable and one to the canary
// Service: of group "" and kind Service, in the Rollout's namespace, each once.
// The defaults are the CRD's: an absent group is "", an absent kind is Service,
// an absent weight is 1, and an absent namespace is the route's own. Canary gets
// the weight, stable what canary and experiments do not get of the maximum; other
// backends keep their weights. A rule with only one of both stays as it is.
//
// # Rest
//
// A route at rest is as its user had it. The first write records a rule's weights if
// canary has 0 and another backend more, else all for stable; weight 0 restores what is
// recorded. With pingPong, whose Services change sides, rest means all for the Service
// that is stable now; if the recorded weights say that, they are restored. A rule with
// canary 0 and without a record is at rest whatever its numbers.
//
// # State
//
// All that a later call needs is on the route, in Annotation: the plugin may have
// been restarted between two calls. The annotation has an entry for each Owner (a
// Rollout's registration of the plugin) whose traffic is not at rest, and is removed with
// the last entry. An entry has the owner's rules with their weights at rest, the
// experiments, the header and mirror routes with the names and fingerprints of the rules
// made for them, what parents said against the route before, and the route's own name:
// in a copied manifest, entries of another route say nothing. What a registration that
// the Rollout does not have any more has left becomes part of the entry of the one that
// asks.
//
// # Which rule is which
//
// The rules of a route are a list without keys. A rule is identified by its name,
// else by the fingerprint of what it matches, mirrors to and refers to, without
// weights and experiments: others may add, remove, reorder and edit rules in the
// middle of a canary, and CRDs older than Gateway API v1.4 drop names. If both
// fail, and one record and one rule of the route are over, they are taken to be the
// same. If that fails too, the record is lost: at rest the canary gets 0 in each rule that
// has another backend with weight, and the record stays until that is so.
//
// A managed rule is identified by its fingerprint first. By its name alone it is known
// only if it does what its header or mirror route does, and so is one without any record,
// which this plugin has made before the annotation was removed, or another plugin: users
// may give such names to rules of their own.
//
// # Header and mirror routes
//
// A header or mirror route makes a managed rule from each rule that is split, its
// source: a copy whose matches ask for what both the source and the step ask for.
// Managed rules stand at the end, by owner and then in the order of managedRoutes.
// A managed rule that is not more specific than its source stands right before the
// source, because the first of two equal rules wins. If the source has several
// matches, and the managed rule would have some of them unchanged, those are not in it,
// with a warning: Contour refuses a whole rule if one of its matches is also in an
// earlier rule, and its requests would be lost. A match that would take all its
// requests from another rule is not in it.
//
// # One decision
//
// Apply returns a Decision for what is Wanted: weights, calls about header and mirror
// routes, and what the passed steps have set. Its Route is to be written if Changed is
// true, on condition that the route has not changed since it was read. Its Managed,
// together with the weights, is what self-healing wants later. Release returns the
// Decision for an owner that is gone.
package gatewayapi
