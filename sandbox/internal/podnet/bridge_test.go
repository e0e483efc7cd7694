package podnet

import (
	"net"
	"net/netip"
	"testing"
)

// TestGatewayKeepsItsHardwareAddress: pods that run have it in their neighbour
// tables, and would not reach the gateway under another one.
func TestGatewayKeepsItsHardwareAddress(t *testing.T) {
	for i := range 8 {
		ip := netip.AddrFrom4([4]byte{10, 244, 7, byte(i + 1)})
		pod := newTestPod(t, ip.String())
		defer func() { _ = pod.Close() }()
		bridge, err := net.InterfaceByName(bridgeName)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := bridge.HardwareAddr.String(), bridgeAddress.String(); got != want {
			t.Fatalf("with %d pods the bridge has the hardware address %s, want %s", i+1, got, want)
		}
	}
}
