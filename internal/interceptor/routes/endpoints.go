package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// service is what routing needs of a Service.
type service struct {
	ports []servicePort
	// external tells that the Service is of type ExternalName, a DNS name without
	// endpoints.
	external bool
}

// servicePort is a TCP port of a Service. EndpointSlices refer to it by its name,
// whatever targetPort is.
type servicePort struct {
	name        string
	number      int32
	appProtocol string
}

func readService(object *corev1.Service) *service {
	s := &service{external: object.Spec.Type == corev1.ServiceTypeExternalName}
	for i := range object.Spec.Ports {
		p := &object.Spec.Ports[i]
		if p.Protocol == "" || p.Protocol == corev1.ProtocolTCP {
			s.ports = append(s.ports, servicePort{p.Name, p.Port, deref(p.AppProtocol)})
		}
	}
	return s
}

func (s *service) equal(other *service) bool {
	return s.external == other.external && slices.Equal(s.ports, other.ports)
}

// find returns the port that an object refers to; nil if there is none.
func (s *service) find(wanted port) *servicePort {
	for i := range s.ports {
		p := &s.ports[i]
		if wanted.number != 0 && p.number == wanted.number || wanted.number == 0 && p.name == wanted.name {
			return p
		}
	}
	return nil
}

// slice is what routing needs of an EndpointSlice.
type slice struct {
	service   types.NamespacedName
	ports     []slicePort
	addresses []sliceAddress
}

type slicePort struct {
	name        string
	number      uint16
	appProtocol string
}

type sliceAddress struct {
	address netip.Addr
	// ready addresses take requests; the others are terminating and still serve.
	ready bool
}

// readSlice leaves out addresses that get no requests: those that are neither ready nor
// serving while they terminate. It returns nil for a slice that belongs to no Service,
// and for one of DNS names (addressType FQDN), which no controller writes.
func readSlice(object *discoveryv1.EndpointSlice) *slice {
	owner := object.Labels[discoveryv1.LabelServiceName]
	if owner == "" || object.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	s := &slice{service: types.NamespacedName{Namespace: object.Namespace, Name: owner}}
	for i := range object.Ports {
		p := &object.Ports[i]
		if p.Port == nil || *p.Port < 1 || *p.Port > 65535 || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
			continue
		}
		s.ports = append(s.ports, slicePort{deref(p.Name), uint16(*p.Port), deref(p.AppProtocol)})
	}
	for i := range object.Endpoints {
		e := &object.Endpoints[i]
		// Conditions that are not set: ready is true, serving is the same as ready, and
		// terminating is false.
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		serving := ready
		if e.Conditions.Serving != nil {
			serving = *e.Conditions.Serving
		}
		if !ready && (!serving || !deref(e.Conditions.Terminating)) {
			continue
		}
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				s.addresses = append(s.addresses, sliceAddress{address.Unmap(), ready})
			}
		}
	}
	return s
}

func (s *slice) equal(other *slice) bool {
	return s.service == other.service && slices.Equal(s.ports, other.ports) && slices.Equal(s.addresses, other.addresses)
}

// gather returns the endpoints of a port in all slices of its Service, of both address
// families, each address once. An address is ready if any slice says so, as an endpoint
// that moves from one slice to another is in both for a while.
func gather(p *servicePort, ofService []*slice) (endpoints Endpoints) {
	type endpoint struct {
		at    netip.AddrPort
		ready bool
	}
	var all []endpoint
	for _, s := range ofService {
		for i := range s.ports {
			sp := &s.ports[i]
			if sp.name != p.name {
				continue
			}
			for _, a := range s.addresses {
				all = append(all, endpoint{netip.AddrPortFrom(a.address, sp.number), a.ready})
			}
		}
	}
	slices.SortFunc(all, func(a, b endpoint) int {
		if order := a.at.Compare(b.at); order != 0 || a.ready == b.ready {
			return order
		}
		if a.ready {
			return -1
		}
		return 1
	})
	all = slices.CompactFunc(all, func(a, b endpoint) bool { return a.at == b.at })
	for _, e := range all {
		if e.ready {
			endpoints.Ready = append(endpoints.Ready, e.at)
		} else {
			endpoints.Draining = append(endpoints.Draining, e.at)
		}
	}
	endpoints.Protocol = protocolOf(appProtocolOf(p, ofService))
	return endpoints
}

// appProtocolOf returns the appProtocol of a port: that of the Service or, if it has
// none, of its slices, as handwritten slices may be the only ones to have it. Of
// several the first in alphabetical order counts, so that the order of the slices does
// not matter.
func appProtocolOf(p *servicePort, ofService []*slice) string {
	if p.appProtocol != "" {
		return p.appProtocol
	}
	least := ""
	for _, s := range ofService {
		for i := range s.ports {
			if said := s.ports[i].appProtocol; s.ports[i].name == p.name && said != "" && (least == "" || said < least) {
				least = said
			}
		}
	}
	return least
}

// protocolOf returns the protocol of an appProtocol: HTTP/1.1 for an unknown one, as
// such ports were served before appProtocol was read.
func protocolOf(appProtocol string) Protocol {
	switch appProtocol {
	case "kubernetes.io/h2c", "grpc":
		return H2C
	default: // "", "http", "kubernetes.io/ws"
		return HTTP1
	}
}

// wantsTLS tells whether an appProtocol stands for TLS: https, as IANA names it,
// kubernetes.io/wss, as Kubernetes names it, and others in use, with the prefix of any
// implementation or none.
func wantsTLS(appProtocol string) bool {
	name := lowerASCII(appProtocol[strings.LastIndexByte(appProtocol, '/')+1:])
	return name == "https" || name == "wss" || name == "tls" || name == "grpcs"
}

// locate returns a target's Service and port. If they do not exist or cannot be used,
// both are nil, and it returns the reason and the text of a Problem.
func (b *Builder) locate(namespace string, to target) (s *serviceState, p *servicePort, reason Reason, problem string) {
	name := types.NamespacedName{Namespace: namespace, Name: to.service}
	s = b.services[name]
	switch {
	case s == nil || s.service == nil:
		return nil, nil, UnknownService, fmt.Sprintf("Service %s is not there and gets no requests", name)
	case s.service.external:
		return nil, nil, UnknownService, fmt.Sprintf("Service %s is of type ExternalName, which has no endpoints and gets no requests", name)
	}
	if p = s.service.find(to.port); p == nil {
		return nil, nil, UnknownPort, fmt.Sprintf("Service %s has no TCP port %v and gets no requests", name, to.port)
	}
	if said := appProtocolOf(p, s.slices); wantsTLS(said) {
		return nil, nil, UnsupportedProtocol, fmt.Sprintf("Service %s says appProtocol %s of port %v and gets no requests: applications are spoken to without TLS; name a port that takes plain text",
			name, said, to.port)
	}
	return s, p, "", ""
}

// resolve returns the endpoints of a target. If its Service or port does not exist or
// cannot be used, there are none, and it returns the reason and the text of a Problem.
func (b *Builder) resolve(namespace string, to target) (endpoints Endpoints, reason Reason, problem string) {
	s, p, reason, problem := b.locate(namespace, to)
	if p == nil {
		return Endpoints{}, reason, problem
	}
	return gather(p, s.slices), "", ""
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
