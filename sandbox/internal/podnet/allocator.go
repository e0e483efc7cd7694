package podnet

import (
	"fmt"
	"net/netip"
	"sync"
)

// Allocator hands out the addresses of a range. It goes round its range, so that an
// address is reused as late as possible: clients that still hold the address of a
// pod that is gone are refused instead of reaching another pod. An IPv4 address
// that ends in 0 or 255 is never handed out.
type Allocator struct {
	mu     sync.Mutex
	cidr   netip.Prefix
	first  netip.Addr
	used   map[netip.Addr]bool
	cursor netip.Addr
}

// NewAllocator hands out the addresses of cidr from first on. first must be in
// cidr.
func NewAllocator(cidr netip.Prefix, first netip.Addr) (*Allocator, error) {
	if !cidr.Contains(first) {
		return nil, fmt.Errorf("first address %s is not in %s", first, cidr)
	}
	return &Allocator{cidr: cidr, first: first, used: map[netip.Addr]bool{}}, nil
}

// Next returns an address that is not in use, or an error if there is none.
func (a *Allocator) Next() (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := a.cursor
	for addr := a.after(start); ; addr = a.after(addr) {
		if usable(addr) && !a.used[addr] {
			a.used[addr] = true
			a.cursor = addr
			return addr, nil
		}
		if addr == start || (!start.IsValid() && a.after(addr) == a.first) {
			return netip.Addr{}, fmt.Errorf("all of %s from %s on are in use", a.cidr, a.first)
		}
	}
}

// Reserve takes addr, and reports whether it was free and can be handed out.
func (a *Allocator) Reserve(addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.cidr.Contains(addr) || addr.Less(a.first) || !usable(addr) || a.used[addr] {
		return false
	}
	a.used[addr] = true
	return true
}

// Release gives addr back. It does nothing if addr is not in use.
func (a *Allocator) Release(addr netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.used, addr)
}

func (a *Allocator) after(addr netip.Addr) netip.Addr {
	if !addr.IsValid() {
		return a.first
	}
	next := addr.Next()
	if !next.IsValid() || !a.cidr.Contains(next) {
		return a.first
	}
	return next
}

// usable leaves out x.y.z.0 and x.y.z.255: legal in a /16, but people and some
// programs take them for network and broadcast addresses.
func usable(addr netip.Addr) bool {
	if !addr.Is4() {
		return true
	}
	last := addr.As4()[3]
	return last != 0 && last != 255
}
