// Package peerlimit bounds what the clients of a port have open at a time, connections or
// streams, so that no client keeps another from the port.
package peerlimit

import (
	"net"
	"slices"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

// Limit bounds the places of one IP address, and all together. A new client is never
// refused: it displaces the oldest one of its address, or of the address that has most. So
// no client keeps another out, even if both have one address, such as that of a service
// mesh's sidecar. All methods are safe for any number of goroutines.
type Limit struct {
	most, perAddress int

	mu        sync.Mutex
	taken     int
	byAddress map[string][]*Place // the oldest first
}

// Place is what one connection or stream takes of a Limit.
type Place struct {
	of       *Limit
	address  string
	displace func()
}

// New returns a Limit of so many places, and so many for one IP address; both above 0.
func New(most, perAddress int) *Limit {
	return &Limit{most: most, perAddress: perAddress, byAddress: make(map[string][]*Place)}
}

// Take takes a place for a client. displace is called, once at most, when another client
// takes the place; Release has no effect then.
func (l *Limit) Take(client net.Addr, displace func()) *Place {
	p := &Place{of: l, address: Address(client), displace: displace}
	if displaced := l.add(p); displaced != nil {
		displaced.displace()
	}
	return p
}

// add adds a place, and returns the one that it displaces, nil for none.
func (l *Limit) add(p *Place) (displaced *Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byAddress[p.address] = append(l.byAddress[p.address], p)
	l.taken++
	if own := l.byAddress[p.address]; len(own) > l.perAddress {
		displaced = own[0]
	} else if l.taken > l.most {
		displaced = l.oldestOfLargest(p.address)
	}
	if displaced != nil {
		l.remove(displaced)
	}
	return displaced
}

// oldestOfLargest returns the oldest place of the address that has most; of the address own
// only if no other has as many.
func (l *Limit) oldestOfLargest(own string) *Place {
	largest := own
	for address, places := range l.byAddress {
		if more := len(places) - len(l.byAddress[largest]); more > 0 || more == 0 && largest == own {
			largest = address
		}
	}
	return l.byAddress[largest][0]
}

// Release gives the place back. It tells whether the client still had it.
func (p *Place) Release() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.remove(p)
}

func (l *Limit) remove(p *Place) bool {
	places := l.byAddress[p.address]
	i := slices.Index(places, p)
	if i < 0 {
		return false
	}
	if places = slices.Delete(places, i, i+1); len(places) == 0 {
		delete(l.byAddress, p.address)
	} else {
		l.byAddress[p.address] = places
	}
	l.taken--
	return true
}

// Usage returns how near the Limit is to its bounds, which have the names of these flags.
func (l *Limit) Usage(flag, flagPerAddress string) []usage.Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	busiest := 0
	for _, places := range l.byAddress {
		busiest = max(busiest, len(places))
	}
	return []usage.Limit{
		{Name: flag, Used: float64(l.taken), Max: float64(l.most)},
		{Name: flagPerAddress, Used: float64(busiest), Max: float64(l.perAddress)},
	}
}

// Address returns the address of a client without its port.
func Address(client net.Addr) string {
	text := client.String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}
