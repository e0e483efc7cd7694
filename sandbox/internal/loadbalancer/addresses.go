package loadbalancer

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

// addresses knows which Service has which address of a range.
type addresses struct {
	cidr  netip.Prefix
	free  *podnet.Allocator
	byUID map[types.UID]netip.Addr
}

func newAddresses(cidr netip.Prefix) (addresses, error) {
	cidr = cidr.Masked()
	free, err := podnet.NewAllocator(cidr, cidr.Addr())
	if err != nil {
		return addresses{}, err
	}
	return addresses{cidr: cidr, free: free, byUID: map[types.UID]netip.Addr{}}, nil
}

// contains says whether the text is an address of the range.
func (a *addresses) contains(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && a.cidr.Contains(ip)
}

// forget frees the addresses of all but the known Services.
func (a *addresses) forget(known map[types.UID]bool) {
	for uid, ip := range a.byUID {
		if !known[uid] {
			delete(a.byUID, uid)
			a.free.Release(ip)
		}
	}
}

// adopt takes over the address in a Service's status, such as one from an earlier
// node, unless the Service has an address or another Service has this one.
func (a *addresses) adopt(uid types.UID, ip netip.Addr) {
	if _, has := a.byUID[uid]; !has && a.free.Reserve(ip) {
		a.byUID[uid] = ip
	}
}

// assign returns the address of a Service: wanted if that is not empty, else the one
// it has, else a free one. On an error it returns the address that the Service has,
// if any.
func (a *addresses) assign(uid types.UID, wanted string) (netip.Addr, error) {
	have := a.byUID[uid]
	if wanted != "" {
		ip, err := netip.ParseAddr(wanted)
		switch {
		case err != nil || !a.cidr.Contains(ip):
			return have, fmt.Errorf("spec.loadBalancerIP %s: expected an address of the sandbox's range %s; leave the field out for any", wanted, a.cidr)
		case ip == have:
			return ip, nil
		case !a.free.Reserve(ip):
			return have, fmt.Errorf("spec.loadBalancerIP %s: the address is reserved, or another Service has it; choose another one of %s, or leave the field out for any", wanted, a.cidr)
		}
		if have.IsValid() {
			a.free.Release(have)
		}
		a.byUID[uid] = ip
		return ip, nil
	}
	if have.IsValid() {
		return have, nil
	}
	ip, err := a.free.Next()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("load balancer addresses: %w; delete another Service of type LoadBalancer, and this one gets its address", err)
	}
	a.byUID[uid] = ip
	return ip, nil
}
