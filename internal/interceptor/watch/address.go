package watch

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addresses are the ClusterIPs of the address Service with its port. If there are none,
// why says what is wrong with the Service.
type addresses struct {
	at  []netip.AddrPort
	why string
}

var (
	noService = addresses{why: "there is no such Service"}
	unknown   = addresses{why: "the API server does not let us read it"}
)

// addressesOf returns the ClusterIPs of a Service with the number of the named port, or
// of its only port.
func addressesOf(s *corev1.Service, port string) addresses {
	var number uint16
	for _, p := range s.Spec.Ports {
		if p.Name == port || len(s.Spec.Ports) == 1 {
			number = uint16(p.Port) // the API server rejects a port that does not fit into 16 bits
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

// setEndpoints keeps the addresses of an EndpointSlice if it is of the address Service.
func (f *feed) setEndpoints(name types.NamespacedName, o *discoveryv1.EndpointSlice) {
	delete(f.endpoints, name)
	service := f.options.AddressService
	if service.Name == "" || name.Namespace != service.Namespace || o.Labels[discoveryv1.LabelServiceName] != service.Name {
		return
	}
	for _, e := range o.Endpoints {
		for _, text := range e.Addresses {
			if ip, err := netip.ParseAddr(text); err == nil {
				f.endpoints[name] = append(f.endpoints[name], ip)
			}
		}
	}
}

func (a addresses) equal(other addresses) bool {
	return slices.Equal(a.at, other.at) && a.why == other.why
}

// tellAddresses calls OnAddresses if the result has changed since the last call.
func (f *feed) tellAddresses() {
	if f.options.OnAddresses == nil || f.options.AddressService.Name == "" || f.told != nil && f.told.equal(f.addresses) {
		return
	}
	told := f.addresses
	f.told = &told
	f.options.OnAddresses(slices.Clone(told.at), told.why)
}
