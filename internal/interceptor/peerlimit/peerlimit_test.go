package peerlimit

import (
	"net"
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/usage"
)

func from(last byte, port int) net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, last), Port: port}
}

// Whoever fills his share leaves the others theirs, and whoever has most makes room.
func TestLimit(t *testing.T) {
	l := New(5, 3)
	var displaced []int
	places := make(map[int]*Place)
	take := func(last byte, port int, want ...int) {
		t.Helper()
		displaced = nil
		places[port] = l.Take(from(last, port), func() { displaced = append(displaced, port) })
		if !slices.Equal(displaced, want) {
			t.Errorf("%d of 10.0.0.%d displaces %v; expected %v", port, last, displaced, want)
		}
	}
	take(1, 1)
	take(1, 2)
	take(1, 3)
	take(1, 4, 1) // the oldest of its own address, which has its share
	take(2, 5)
	take(2, 6)
	take(3, 7, 2) // the oldest of the busiest address
	if got, want := l.Usage("all", "each"), []usage.Limit{{Name: "all", Used: 5, Max: 5}, {Name: "each", Used: 2, Max: 3}}; !slices.Equal(got, want) {
		t.Errorf("usage %v; expected %v", got, want)
	}
	take(2, 8, 5) // its own, which has most now
	if places[5].Release() {
		t.Error("a displaced client gives its place back")
	}
	if !places[8].Release() || places[8].Release() {
		t.Error("a place is not given back once")
	}
	take(3, 9)
	for _, port := range []int{3, 4, 6, 7, 9} {
		places[port].Release()
	}
	if l.taken != 0 || len(l.byAddress) != 0 {
		t.Errorf("%d places of %d addresses are kept", l.taken, len(l.byAddress))
	}
}
