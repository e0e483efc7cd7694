package figures

import (
	"slices"
	"time"
)

// object returns an object, a new one if it is not known.
func (f *Figures) object(key Key) *object {
	o := f.objects[key]
	if o == nil {
		o = &object{window: DefaultWindow, subscribers: make(map[chan struct{}]struct{})}
		f.objects[key] = o
	}
	return o
}

// sweep forgets objects and proxies of which nothing is left.
func (f *Figures) sweep(now time.Duration) {
	for key, o := range f.objects {
		o.parts = slices.DeleteFunc(o.parts, func(p *part) bool { return p.source.removed })
		o.rings = slices.DeleteFunc(o.rings, func(r *ring) bool {
			return r.sum(r.proxy.end(now)-o.window.Length) == 0
		})
		if len(o.parts)+len(o.rings)+len(o.subscribers) == 0 {
			delete(f.objects, key)
		}
	}
	for key, p := range f.proxies {
		if !p.expected && !p.connected && len(p.sources) == 0 && now-p.last > LongestWindow {
			delete(f.proxies, key)
		}
	}
}
