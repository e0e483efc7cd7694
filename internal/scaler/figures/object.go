package figures

import (
	"slices"
	"time"
)

// An object is an HTTPScaledObject of which something is known, or asked for.
type object struct {
	window      Window
	parts       []*part
	rings       []*ring
	subscribers map[chan struct{}]struct{}
}

// add adds n requests that a proxy counted between from and to.
func (o *object) add(p *proxy, from, to time.Duration, n int64) {
	i := slices.IndexFunc(o.rings, func(r *ring) bool { return r.proxy == p })
	switch {
	case n > 0:
		if i < 0 {
			i = len(o.rings)
			o.rings = append(o.rings, newRing(p, o.window))
		}
		o.rings[i].add(from, to, float64(n))
	case n < 0 && i >= 0:
		o.rings[i].take(-float64(n))
	}
}

// drop forgets what a source said last. What it counted ages out.
func (o *object) drop(p *part) {
	o.parts = slices.DeleteFunc(o.parts, func(other *part) bool { return other == p })
}

// serve makes the rings such that they serve a window.
func (o *object) serve(w Window, now time.Duration) {
	wanted := o.window.covering(w)
	if wanted == o.window {
		return
	}
	for i, r := range o.rings {
		from := r.from
		if wanted.Length > o.window.Length {
			from = max(from, r.proxy.end(now)-o.window.Length)
		}
		o.rings[i] = r.resliced(wanted, from)
	}
	o.window = wanted
}

// underWay returns how many requests are under way, and how many of them are held.
func (o *object) underWay() (active, held int64) {
	for _, p := range o.parts {
		if p.source.counts() {
			active += p.active
			held += p.held
		}
	}
	return active, held
}

// notify tells all that wait for a request to be held.
func (o *object) notify() {
	for s := range o.subscribers {
		select {
		case s <- struct{}{}:
		default: // it is still to read the last one
		}
	}
}
