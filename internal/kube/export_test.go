package kube

import "time"

// DiscoverEvery shortens the times between two askings what the cluster serves. It
// is to be called before the first use of a Group.
func (g *Group) DiscoverEvery(every, atMost time.Duration) {
	g.every, g.discovery.atMost = every, atMost
}
