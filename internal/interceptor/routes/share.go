package routes

// shareOut sets the share that each backend is to serve now. A backend without a ready
// endpoint leaves its share to the others, in proportion to their weights: as shares
// are relative, its own is set to 0. If no backend with weight has a ready endpoint,
// those that drain serve; if there are none of these either, all shares are 0 and the
// route is cold.
func shareOut(backends []Backend) {
	if !shareAmong(backends, func(b *Backend) bool { return len(b.Ready) > 0 }) {
		shareAmong(backends, func(b *Backend) bool { return len(b.Draining) > 0 })
	}
}

func shareAmong(backends []Backend, can func(*Backend) bool) (served bool) {
	for i := range backends {
		b := &backends[i]
		b.Share = 0
		if can(b) {
			b.Share = b.Weight
		}
		served = served || b.Share > 0
	}
	return served
}
