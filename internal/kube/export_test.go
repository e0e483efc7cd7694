package kube

import "time"

// DiscoverEvery shortens the interval at which a Group asks what the cluster serves. It
// must be called before the first use of the Group.
func (g *Group) DiscoverEvery(every, atMost time.Duration) {
	g.every, g.discovery.atMost = every, atMost
}
