package figures

import "slices"

// Rate returns the requests per second over a valid window. It is an error if a proxy that
// has a share in it is unknown or has been silent for the window.
func (f *Figures) Rate(key Key, w Window) (float64, error) {
	now := f.lock()
	defer f.mu.Unlock()
	if err := f.missing(key.Namespace, w.Length, now); err != nil {
		return 0, err
	}
	o := f.objects[key]
	if o == nil {
		return 0, nil
	}
	o.serve(w, now)
	rate := 0.0
	for _, r := range o.rings {
		end := r.proxy.end(now)
		from := max(end-w.Length, r.from)
		sum, covered := r.sum(from), r.proxy.covered(from, end)
		if sum == 0 || covered <= 0 {
			continue
		}
		if err := r.proxy.share(w.Length, now); err != nil {
			return 0, err
		}
		rate += sum / covered.Seconds()
	}
	return rate, nil
}

// Concurrency returns the requests that are under way or held now. It is an error if a
// proxy that has a share in it is unknown or has been silent for DefaultWindow.
func (f *Figures) Concurrency(key Key) (int64, error) {
	now := f.lock()
	defer f.mu.Unlock()
	if err := f.missing(key.Namespace, DefaultWindow.Length, now); err != nil {
		return 0, err
	}
	o := f.objects[key]
	if o == nil {
		return 0, nil
	}
	for _, p := range o.parts {
		if p.active == 0 || !p.source.counts() {
			continue
		}
		if err := p.source.proxy.share(DefaultWindow.Length, now); err != nil {
			return 0, err
		}
	}
	active, _ := o.underWay()
	return active, nil
}

// underWay returns how many requests are under way, and how many of them are held.
func (f *Figures) underWay(key Key) (active, held int64) {
	if o := f.objects[key]; o != nil {
		return o.underWay()
	}
	return 0, 0
}

// Active tells whether a request is known to be held or under way, or to have come in a
// window: a valid one, or zero for those that were asked for before. If it is false, Missing
// tells whether that is sure.
func (f *Figures) Active(key Key, w Window) bool {
	now := f.lock()
	defer f.mu.Unlock()
	o := f.objects[key]
	if o == nil {
		return false
	}
	if active, held := o.underWay(); active > 0 || held > 0 {
		return true
	}
	if w == (Window{}) {
		w = o.window
	}
	o.serve(w, now)
	return slices.ContainsFunc(o.rings, func(r *ring) bool {
		return r.sum(r.proxy.end(now)-w.Length) > 0
	})
}

// Held tells whether a request of the object is known to wait for an endpoint.
func (f *Figures) Held(key Key) bool {
	f.lock()
	defer f.mu.Unlock()
	_, held := f.underWay(key)
	return held > 0
}

// Subscribe returns a channel that tells when requests of the object begin to be held. It
// does not tell of those that are when it is called: ask Held after it. The cancel function
// has to be called at the end; the channel is never closed.
func (f *Figures) Subscribe(key Key) (held <-chan struct{}, cancel func()) {
	f.lock()
	defer f.mu.Unlock()
	o, s := f.object(key), make(chan struct{}, 1)
	o.subscribers[s] = struct{}{}
	return s, func() {
		f.lock()
		defer f.mu.Unlock()
		delete(o.subscribers, s)
	}
}
