package figures

import "time"

// leastRequest is more than what rounding leaves of requests that were refused.
const leastRequest = 1e-3

// A ring has the requests of one object by one proxy, in slices of time. All times are
// since the start of the scaler.
type ring struct {
	proxy *proxy
	// from is since when the ring has all requests: a window that became longer has not
	// seen what is older than it was.
	from   time.Duration
	slice  time.Duration
	newest int64     // the number of the newest slice since the start
	counts []float32 // a slice's number modulo the length is its index
}

// newRing returns a ring that has all of the window's length before any time, so one slice
// more than the window: the oldest and the newest are there in part.
func newRing(p *proxy, w Window) *ring {
	return &ring{proxy: p, slice: w.Granularity, counts: make([]float32, w.slices()+1)}
}

// at returns a slice that oldest() says is there.
func (r *ring) at(slice int64) *float32 { return &r.counts[slice%int64(len(r.counts))] }

func (r *ring) oldest() int64 { return max(0, r.newest-int64(len(r.counts))+1) }

// advance makes the slice at the time the newest, unless it is older.
func (r *ring) advance(to time.Duration) {
	newest := int64(to / r.slice)
	for i := max(r.newest+1, newest-int64(len(r.counts))+1); i <= newest; i++ {
		*r.at(i) = 0
	}
	r.newest = max(r.newest, newest)
}

// add spreads n requests evenly over the time between from and to; what is older than the
// ring is left out.
func (r *ring) add(from, to time.Duration, n float64) {
	r.advance(to)
	if from >= to {
		if last := int64(to / r.slice); last >= r.oldest() {
			*r.at(last) += float32(n)
		}
		return
	}
	for i := max(int64(from/r.slice), r.oldest()); i <= int64(to/r.slice); i++ {
		begin := time.Duration(i) * r.slice
		part := min(to, begin+r.slice) - max(from, begin)
		*r.at(i) += float32(n * float64(part) / float64(to-from))
	}
}

// take takes n requests off, the youngest first.
func (r *ring) take(n float64) {
	for i := r.newest; i >= r.oldest() && n > 0; i-- {
		taken := min(n, float64(*r.at(i)))
		*r.at(i) -= float32(taken)
		n -= taken
	}
}

// sum returns how many requests came after from. It takes those in the slice of from as
// spread evenly.
func (r *ring) sum(from time.Duration) float64 {
	from = max(from, r.from)
	sum := 0.0
	for i := max(int64(from/r.slice), r.oldest()); i <= r.newest; i++ {
		sum += r.after(i, from)
	}
	if sum < leastRequest {
		return 0
	}
	return sum
}

// after returns how many requests of a slice came after from.
func (r *ring) after(i int64, from time.Duration) float64 {
	n, begin, end := float64(*r.at(i)), max(time.Duration(i)*r.slice, r.from), r.end(i)
	switch {
	case from <= begin:
		return n
	case from >= end:
		return 0
	}
	return n * float64(end-from) / float64(end-begin)
}

// end returns when a slice ends. The newest one ends now.
func (r *ring) end(i int64) time.Duration { return min(time.Duration(i+1)*r.slice, r.proxy.last) }

// resliced returns a ring for another window with the requests after from.
func (r *ring) resliced(w Window, from time.Duration) *ring {
	other := newRing(r.proxy, w)
	other.from = from
	for i := r.oldest(); i <= r.newest; i++ {
		if n := r.after(i, from); n > 0 {
			other.add(max(time.Duration(i)*r.slice, from), r.end(i), n)
		}
	}
	return other
}
