package podnet

import (
	"net/netip"
	"testing"
)

func TestAllocator(t *testing.T) {
	a, err := NewAllocator(netip.MustParsePrefix("10.0.0.0/29"), netip.MustParseAddr("10.0.0.3"))
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		got, err := a.Next()
		if err != nil || got.String() != want {
			t.Fatalf("Next = %v, %v; want %s", got, err, want)
		}
	}
	next("10.0.0.3")
	next("10.0.0.4")
	a.Release(netip.MustParseAddr("10.0.0.3"))
	// The address just given back is the last to be used again.
	next("10.0.0.5")
	next("10.0.0.6")
	next("10.0.0.7")
	next("10.0.0.3")
	if got, err := a.Next(); err == nil {
		t.Fatalf("Next = %s with nothing left; want an error", got)
	}
	a.Release(netip.MustParseAddr("10.0.0.6"))
	next("10.0.0.6")
}

func TestAllocatorReserve(t *testing.T) {
	a, err := NewAllocator(netip.MustParsePrefix("10.0.0.0/29"), netip.MustParseAddr("10.0.0.2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		address string
		want    bool
	}{{"10.0.0.2", true}, {"10.0.0.2", false}, {"10.0.0.1", false}, {"10.0.0.8", false}, {"::1", false}} {
		if got := a.Reserve(netip.MustParseAddr(try.address)); got != try.want {
			t.Errorf("Reserve(%s) = %t, want %t", try.address, got, try.want)
		}
	}
	if got, err := a.Next(); err != nil || got.String() != "10.0.0.3" {
		t.Errorf("Next = %v, %v; want the first that is not reserved", got, err)
	}
}

func TestAllocatorSkipsNetworkAndBroadcast(t *testing.T) {
	a, err := NewAllocator(netip.MustParsePrefix("10.244.0.0/16"), netip.MustParseAddr("10.244.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		got, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		if last := got.As4()[3]; last == 0 || last == 255 {
			t.Fatalf("address %d is %s", i, got)
		}
	}
}

func TestAllocatorOfOne(t *testing.T) {
	a, err := NewAllocator(netip.MustParsePrefix("10.0.0.1/32"), netip.MustParseAddr("10.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Next(); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Next(); err == nil {
		t.Fatalf("Next = %s with nothing left; want an error", got)
	}
	if _, err := NewAllocator(netip.MustParsePrefix("10.0.0.0/29"), netip.MustParseAddr("10.0.1.0")); err == nil {
		t.Error("NewAllocator took a first address outside of its range")
	}
}

func TestInterfaceName(t *testing.T) {
	a, b := interfaceName("0a8d5a2e-6c39-4a5c-9d1c-3d5d7b1f8a11"), interfaceName("0a8d5a2e-6c39-4a5c-9d1c-3d5d7b1f8a12")
	if a == b || len(a) > 15 {
		t.Errorf("interface names %q and %q: want two of at most 15 bytes", a, b)
	}
}
