package dns

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Source is what the names are made from.
type Source interface {
	// Service returns a Service, or nil if there is none.
	Service(namespace, name string) *corev1.Service
	// Slices returns the EndpointSlices of a Service.
	Slices(namespace, name string) []*discoveryv1.EndpointSlice
	// ByClusterIP returns the Service that has a ClusterIP, or nil.
	ByClusterIP(ip netip.Addr) *corev1.Service
	// HasNamespace reports whether a namespace has any Service.
	HasNamespace(namespace string) bool
}

// ttl of every answer, in seconds: short, as endpoints come and go, and long
// enough to spare a busy client.
const ttl = 5

// records answers the questions of one zone.
type records struct {
	source Source
	zone   string                // "cluster.local."
	hosts  map[string]netip.Addr // by lower-case name with a dot at the end
}

// lookup returns the answer to a question and its code. A name that exists but
// has no record of the type gets no answer and code success.
func (r records) lookup(name string, qtype uint16) ([]dns.RR, int) {
	name = dns.CanonicalName(name)
	if ip, ok := r.hosts[name]; ok {
		return r.addresses(name, qtype, []netip.Addr{ip}), dns.RcodeSuccess
	}
	if strings.HasSuffix(name, ".in-addr.arpa.") {
		return r.reverse(name, qtype)
	}
	labels, ok := strings.CutSuffix(name, "."+r.zone)
	if name == r.zone {
		return nil, dns.RcodeSuccess
	}
	if !ok {
		return nil, dns.RcodeNameError
	}
	parts := strings.Split(labels, ".")
	switch parts[len(parts)-1] {
	case "svc":
		return r.service(name, qtype, parts[:len(parts)-1])
	case "pod":
		return r.pod(name, qtype, parts[:len(parts)-1])
	}
	return nil, dns.RcodeNameError
}

// service answers for [[[_port._proto.]|[host.]]service.]namespace under svc.
func (r records) service(name string, qtype uint16, parts []string) ([]dns.RR, int) {
	if len(parts) == 0 {
		return nil, dns.RcodeSuccess
	}
	namespace := parts[len(parts)-1]
	if len(parts) == 1 {
		if !r.source.HasNamespace(namespace) {
			return nil, dns.RcodeNameError
		}
		return nil, dns.RcodeSuccess
	}
	service := r.source.Service(namespace, parts[len(parts)-2])
	if service == nil {
		return nil, dns.RcodeNameError
	}
	above := parts[:len(parts)-2]
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		if len(above) > 0 {
			return nil, dns.RcodeNameError
		}
		return r.alias(name, qtype, dns.Fqdn(service.Spec.ExternalName))
	}
	switch {
	case len(above) == 0:
		return r.addressesOrPorts(name, qtype, service)
	case len(above) == 2 && strings.HasPrefix(above[0], "_") && strings.HasPrefix(above[1], "_"):
		return r.ports(name, qtype, service, above[0][1:], above[1][1:])
	case len(above) == 1 && headless(service):
		var ips []netip.Addr
		for _, e := range r.endpoints(service) {
			if e.host == above[0] {
				ips = append(ips, e.ip)
			}
		}
		if len(ips) == 0 {
			return nil, dns.RcodeNameError
		}
		return r.addresses(name, qtype, ips), dns.RcodeSuccess
	}
	return nil, dns.RcodeNameError
}

func (r records) addressesOrPorts(name string, qtype uint16, service *corev1.Service) ([]dns.RR, int) {
	if qtype == dns.TypeSRV {
		return r.ports(name, qtype, service, "", "")
	}
	if !headless(service) {
		return r.addresses(name, qtype, clusterIPs(service)), dns.RcodeSuccess
	}
	var ips []netip.Addr
	for _, e := range r.endpoints(service) {
		ips = append(ips, e.ip)
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return r.addresses(name, qtype, slices.Compact(ips)), dns.RcodeSuccess
}

// ports answers with SRV records; empty port and protocol stand for all.
func (r records) ports(name string, qtype uint16, service *corev1.Service, port, protocol string) ([]dns.RR, int) {
	fqdn := service.Name + "." + service.Namespace + ".svc." + r.zone
	var answers []dns.RR
	add := func(target string, number int32) {
		answers = append(answers, &dns.SRV{
			Hdr: header(name, dns.TypeSRV), Priority: 0, Weight: 100, Port: uint16(number), Target: target,
		})
	}
	matches := func(name string, p corev1.Protocol) bool {
		return port == "" || strings.EqualFold(name, port) && strings.EqualFold(string(cmp.Or(p, corev1.ProtocolTCP)), protocol)
	}
	if headless(service) {
		for _, e := range r.endpoints(service) {
			for _, p := range e.ports {
				if p.Port != nil && matches(deref(p.Name), deref(p.Protocol)) {
					add(e.host+"."+fqdn, *p.Port)
				}
			}
		}
	} else {
		for _, p := range service.Spec.Ports {
			if matches(p.Name, p.Protocol) {
				add(fqdn, p.Port)
			}
		}
	}
	if len(answers) == 0 && port != "" {
		return nil, dns.RcodeNameError
	}
	if qtype != dns.TypeSRV && qtype != dns.TypeANY {
		return nil, dns.RcodeSuccess
	}
	return answers, dns.RcodeSuccess
}

// alias answers with the name that an ExternalName Service stands for, and with
// its addresses if this server knows them.
func (r records) alias(name string, qtype uint16, target string) ([]dns.RR, int) {
	answers := []dns.RR{&dns.CNAME{Hdr: header(name, dns.TypeCNAME), Target: target}}
	if qtype == dns.TypeCNAME || dns.CanonicalName(target) == name {
		return answers, dns.RcodeSuccess
	}
	// Follow one alias only, so that two Services that name each other end here.
	if service := r.serviceOf(target); service == nil || service.Spec.Type != corev1.ServiceTypeExternalName {
		more, _ := r.lookup(target, qtype)
		answers = append(answers, more...)
	}
	return answers, dns.RcodeSuccess
}

func (r records) serviceOf(name string) *corev1.Service {
	labels, ok := strings.CutSuffix(dns.CanonicalName(name), ".svc."+r.zone)
	parts := strings.Split(labels, ".")
	if !ok || len(parts) != 2 {
		return nil
	}
	return r.source.Service(parts[1], parts[0])
}

// pod answers for a-b-c-d.namespace under pod.
func (r records) pod(name string, qtype uint16, parts []string) ([]dns.RR, int) {
	if len(parts) != 2 {
		return nil, dns.RcodeNameError
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(parts[0], "-", "."))
	if err != nil || !ip.Is4() {
		return nil, dns.RcodeNameError
	}
	return r.addresses(name, qtype, []netip.Addr{ip}), dns.RcodeSuccess
}

func (r records) reverse(name string, qtype uint16) ([]dns.RR, int) {
	parts := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa."), ".")
	slices.Reverse(parts)
	ip, err := netip.ParseAddr(strings.Join(parts, "."))
	if err != nil {
		return nil, dns.RcodeNameError
	}
	service := r.source.ByClusterIP(ip)
	if service == nil {
		return nil, dns.RcodeNameError
	}
	if qtype != dns.TypePTR && qtype != dns.TypeANY {
		return nil, dns.RcodeSuccess
	}
	return []dns.RR{&dns.PTR{
		Hdr: header(name, dns.TypePTR), Ptr: service.Name + "." + service.Namespace + ".svc." + r.zone,
	}}, dns.RcodeSuccess
}

func (r records) addresses(name string, qtype uint16, ips []netip.Addr) []dns.RR {
	if qtype != dns.TypeA && qtype != dns.TypeANY {
		return nil
	}
	var answers []dns.RR
	for _, ip := range ips {
		answers = append(answers, &dns.A{Hdr: header(name, dns.TypeA), A: ip.AsSlice()})
	}
	return answers
}

// endpoint is one ready endpoint of a headless Service.
type endpoint struct {
	ip    netip.Addr
	host  string // its hostname, or its address with dashes
	ports []discoveryv1.EndpointPort
}

func (r records) endpoints(service *corev1.Service) []endpoint {
	var result []endpoint
	for _, slice := range r.source.Slices(service.Namespace, service.Name) {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			ip, err := netip.ParseAddr(e.Addresses[0])
			if err != nil || !ip.Is4() {
				continue
			}
			host := strings.ToLower(deref(e.Hostname))
			if host == "" {
				host = strings.ReplaceAll(ip.String(), ".", "-")
			}
			result = append(result, endpoint{ip: ip, host: host, ports: slice.Ports})
		}
	}
	slices.SortStableFunc(result, func(a, b endpoint) int { return a.ip.Compare(b.ip) })
	return result
}

func headless(service *corev1.Service) bool {
	return service.Spec.ClusterIP == corev1.ClusterIPNone
}

func clusterIPs(service *corev1.Service) []netip.Addr {
	var ips []netip.Addr
	for _, text := range append([]string{service.Spec.ClusterIP}, service.Spec.ClusterIPs...) {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() && !slices.Contains(ips, ip) {
			ips = append(ips, ip)
		}
	}
	return ips
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
