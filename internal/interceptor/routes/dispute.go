package routes

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// hostsOf are hosts by object.
type hostsOf map[types.NamespacedName]map[string]struct{}

// set records whether a host is one of the hosts of an object, and tells whether that
// changed anything.
func (h hostsOf) set(object types.NamespacedName, host string, is bool) bool {
	_, was := h[object][host]
	switch {
	case was == is:
		return false
	case !is:
		if delete(h[object], host); len(h[object]) == 0 {
			delete(h, object)
		}
	case h[object] == nil:
		h[object] = map[string]struct{}{host: {}}
	default:
		h[object][host] = struct{}{}
	}
	return true
}

// disputes keeps track of the hosts that objects of several namespaces name. Few
// objects have any.
type disputes struct {
	// owned are the hosts of an owner that disallowed objects (of namespaces it does not
	// allow) name too. foreign are the hosts of an object that have an owner that
	// does not allow it.
	owned, foreign hostsOf
}

func newDisputes() disputes { return disputes{owned: make(hostsOf), foreign: make(hostsOf)} }

// settleHosts updates the disputes of hosts where objects were added or removed.
func (c *commit) settleHosts() {
	for host, moved := range c.movedHosts {
		c.compare(compareHosts, moved[len(moved)-1], func() { c.settleHost(host, moved) })
	}
}

func (c *commit) settleHost(host string, moved []*matcher) {
	before, after := c.table.hosts.at(host).claimed(), c.next.hosts.at(host).claimed()
	was, is := before.owner(), after.owner()
	if sameOwner(was, is) {
		for _, m := range moved {
			c.settle(m, host, is, after.has(m))
		}
	} else {
		c.changeOwner(host, before, after)
	}
	if is != nil {
		// The disallowed objects that its Problem lists may have changed.
		if c.disputes.owned.set(is.name, host, after.disputed()) || after.disputed() {
			c.markForRecheck(is)
		}
	}
}

// settle records whether m names the host and is disallowed by its owner.
func (c *commit) settle(m *matcher, host string, owner *matcher, named bool) {
	if c.disputes.foreign.set(m.name, host, named && !owner.allows(m.name.Namespace)) {
		c.markForRecheck(m)
	}
}

// changeOwner is for a host whose owner is another object now, or allows other
// namespaces. Its cost grows with the number of objects that name the host.
func (c *commit) changeOwner(host string, before, after claims) {
	was, is := before.owner(), after.owner()
	for _, claim := range before {
		for _, m := range claim.objects {
			c.settle(m, host, is, false)
		}
	}
	if was != nil && c.disputes.owned.set(was.name, host, false) {
		c.markForRecheck(was)
	}
	for _, claim := range after {
		allowed := is.allows(claim.namespace)
		flips := c.next.view.owned && was != nil && was.allows(claim.namespace) != allowed
		for _, m := range claim.objects {
			c.settle(m, host, is, true)
			if !allowed {
				c.markForRecheck(m) // its Problem names the owner, which has changed
			}
			for _, prefix := range m.prefixes {
				if !flips {
					break
				}
				at := site{host, prefix}
				c.move(m, at)
				if !allowed {
					c.shadows.clear(m.name, at)
				}
			}
		}
	}
}

// markForRecheck marks an object whose problems may have changed.
func (c *commit) markForRecheck(m *matcher) {
	if o := c.objects[m.name]; o != nil { // else it is being deleted
		c.recheck[o] = struct{}{}
	}
}

func (h *hostRules) claimed() claims {
	if h == nil {
		return nil
	}
	return h.claims
}

// disputesOf returns the Problems of an object about hosts that are disputed.
func (c *commit) disputesOf(o *object, shadowed bool) []Problem {
	var problems []Problem
	d, name := o.checked, o.name
	if foreign := c.disputes.foreign[name]; len(foreign) > 0 && !shadowed {
		meanwhile := "it takes their requests where it asks for a longer path or a header"
		if c.next.view.owned {
			meanwhile = "it is not served for them"
		}
		problems = append(problems, d.problem(HostNotOwned, "spec.hosts",
			"older objects of other namespaces name hosts of this one: %s; %s. Name others, or ask there for the annotation %s with %s in it",
			c.listHosts(foreign, func(claims claims) string { return claims.owner().name.String() }), meanwhile, AllowedNamespacesAnnotation, name.Namespace))
	}
	if owned := c.disputes.owned[name]; len(owned) > 0 {
		meanwhile := "they take requests where they ask for a longer path or a header, which --host-ownership prevents"
		if c.next.view.owned {
			meanwhile = "they are not served for them"
		}
		problems = append(problems, d.problem(HostDisputed, "spec.hosts",
			"younger objects of other namespaces name hosts of this one: %s; %s. The annotation %s of this object lists the namespaces that may",
			c.listHosts(owned, func(claims claims) string {
				var names []types.NamespacedName
				for _, m := range claims.disallowed() {
					names = append(names, m.name)
				}
				return listSome(names)
			}), meanwhile, AllowedNamespacesAnnotation))
	}
	return problems
}

// listHosts lists a few hosts, each with what others returns for its claims.
func (c *commit) listHosts(hosts map[string]struct{}, others func(claims) string) string {
	all := make([]string, 0, len(hosts))
	for host := range hosts {
		all = append(all, host)
	}
	slices.Sort(all)
	for i, host := range all[:min(len(all), mostNamed)] {
		all[i] = host + " (" + others(c.next.hosts.at(host).claimed()) + ")"
	}
	return listSome(all)
}
