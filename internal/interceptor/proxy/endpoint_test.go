package proxy

import (
	"net/netip"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

func testPool(n int, before *pool) pool {
	addresses := make([]netip.AddrPort, n)
	for i := range addresses {
		addresses[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)
	}
	return newPool(addresses, routes.HTTP1, before)
}

func TestPickTakesTheLessBusyOfTwo(t *testing.T) {
	p := testPool(2, nil)
	p.endpoints[0].busy.Store(3)
	for range 100 {
		if got := p.pick(nil); got != p.endpoints[1] {
			t.Fatal("picked the busier one")
		}
	}
	for range 100 {
		if got := p.pick(p.endpoints[1]); got != p.endpoints[0] {
			t.Fatal("picked the one it was not to")
		}
	}
}

func TestPickLeavesNobodyOut(t *testing.T) {
	p := testPool(5, nil)
	for range 5000 {
		p.pick(nil).busy.Add(1)
	}
	for _, e := range p.endpoints {
		if n := e.busy.Load(); n < 990 || n > 1010 {
			t.Errorf("%s has %d of 5000 requests that never end, want 1000 or nearly", e.host, n)
		}
	}
}

func TestShunnedEndpointsAreTheLastChoice(t *testing.T) {
	p := testPool(4, nil)
	for _, e := range p.endpoints[1:] {
		if !e.shun() || e.shun() {
			t.Error("shun does not tell the first time from the second")
		}
	}
	for range 100 {
		if got := p.pick(nil); got != p.endpoints[0] {
			t.Fatalf("picked %s, which is shunned", got.host)
		}
		if got := p.pick(p.endpoints[0]); got == nil || got == p.endpoints[0] {
			t.Fatal("picked none of the shunned ones, and there is no other")
		}
	}
	p.endpoints[2].forgive()
	if got := p.pick(p.endpoints[0]); got != p.endpoints[2] {
		t.Errorf("picked %s, want the one that is forgiven", got.host)
	}
}

func TestPoolKeepsEndpoints(t *testing.T) {
	before := testPool(3, nil)
	before.endpoints[1].busy.Store(7)
	now := testPool(5, &before)
	if now.endpoints[1] != before.endpoints[1] || len(now.endpoints) != 5 {
		t.Error("an endpoint that stays is another one")
	}
	empty := testPool(0, &before)
	if empty.pick(nil) != nil {
		t.Error("picked one of none")
	}
	one := testPool(1, nil)
	if one.pick(one.endpoints[0]) != nil {
		t.Error("picked another of one")
	}
}
