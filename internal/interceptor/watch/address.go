package watch

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// addresses are where the address Service is reached; of none, why says what is
// wrong with it.
type addresses struct {
	at  []netip.AddrPort
	why string
}

var (
	noService = addresses{why: "there is no such Service"}
	unknown   = addresses{why: "the API server does not let us read it"}
)

// addressesOf returns where a port of a Service is reached.
func addressesOf(s *corev1.Service, port string) addresses {
	var number uint16
	for _, p := range s.Spec.Ports {
		if p.Name == port || len(s.Spec.Ports) == 1 {
			number = uint16(p.Port) // the API server takes no other
		}
	}
	if number == 0 {
		return addresses{why: fmt.Sprintf("it has no port %q", port)}
	}
	var a addresses
	for _, text := range s.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			a.at = append(a.at, netip.AddrPortFrom(ip.Unmap(), number))
		}
	}
	if len(a.at) == 0 {
		a.why = "it has no ClusterIP: it is headless or of another type"
	}
	return a
}

func (a addresses) equal(other addresses) bool {
	return slices.Equal(a.at, other.at) && a.why == other.why
}

// tellAddresses tells of the address Service when there is something new.
func (f *feed) tellAddresses() {
	if f.options.OnAddresses == nil || f.options.AddressService.Name == "" || f.told != nil && f.told.equal(f.addresses) {
		return
	}
	told := f.addresses
	f.told = &told
	f.options.OnAddresses(slices.Clone(told.at), told.why)
}
