package serviceproxy

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var node = Node{Name: "sandbox", IP: netip.MustParseAddr("10.244.0.1")}

func service(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.1.2", ClusterIPs: []string{"10.96.1.2"}, Ports: ports},
	}
}

func endpoint(ip, condition string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: map[string]discoveryv1.EndpointConditions{
		"unknown":     {},
		"ready":       {Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		"not ready":   {Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(false)},
		"terminating": {Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
		"dying":       {Ready: ptr.To(false), Serving: ptr.To(false), Terminating: ptr.To(true)},
	}[condition]}
}

func slice(port string, number int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(port), Port: ptr.To(number), Protocol: ptr.To(corev1.ProtocolTCP)}},
		Endpoints:   endpoints,
	}
}

func on(node string, e discoveryv1.Endpoint) discoveryv1.Endpoint {
	e.NodeName = &node
	return e
}

func balanced(ip string) corev1.ServiceStatus {
	return corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}}}
}

func loadBalancer(policy corev1.ServiceExternalTrafficPolicy, port corev1.ServicePort) *corev1.Service {
	s := service(port)
	s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Status = corev1.ServiceTypeLoadBalancer, policy, balanced("10.97.0.5")
	return s
}

// spec.loadBalancerSourceRanges restricts only the load balancer's address.
func TestSourceRanges(t *testing.T) {
	s := loadBalancer(corev1.ServiceExternalTrafficPolicyCluster, corev1.ServicePort{Port: 80})
	s.Spec.LoadBalancerSourceRanges = []string{"10.244.0.0/24", " 192.0.2.7/32"}
	endpoints := []*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.1", "ready"))}
	for text, want := range map[string]map[string]bool{
		"10.96.1.2:80": {"10.244.0.1": true, "10.244.1.9": true},
		"10.97.0.5:80": {"10.244.0.1": true, "10.244.1.9": false, "192.0.2.7": true, "192.0.2.8": false},
	} {
		b := frontends(s, endpoints, node)[frontend{corev1.ProtocolTCP, netip.MustParseAddrPort(text)}]
		for client, admitted := range want {
			if _, err := b.choose(0, netip.MustParseAddr(client)); (err == nil) != admitted {
				t.Errorf("%s to %s: %v, want it admitted: %t", client, text, err, admitted)
			}
		}
	}
}

func TestFrontends(t *testing.T) {
	web := corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP}
	tests := map[string]struct {
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    map[string][]string
	}{
		"ready ones only": {
			service(web),
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.2", "ready"), endpoint("10.244.1.1", "unknown"), endpoint("10.244.1.3", "not ready"), endpoint("10.244.1.4", "terminating"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080", "10.244.1.2:8080"}},
		},
		"terminating ones as the last resort": {
			service(web),
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.3", "not ready"), endpoint("10.244.1.4", "terminating"), endpoint("10.244.1.5", "dying"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.4:8080"}},
		},
		"none": {
			service(web),
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.3", "not ready"))},
			map[string][]string{"TCP 10.96.1.2:80": nil},
		},
		"an endpoint in two slices counts once": {
			service(web),
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.1", "ready")), slice("", 8080, endpoint("10.244.1.1", "ready"), endpoint("10.244.1.2", "ready"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080", "10.244.1.2:8080"}},
		},
		"named target ports that differ between pods": {
			service(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 90}),
			[]*discoveryv1.EndpointSlice{slice("http", 8080, endpoint("10.244.1.1", "ready")), slice("http", 9090, endpoint("10.244.1.2", "ready"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080", "10.244.1.2:9090"}, "TCP 10.96.1.2:90": nil},
		},
		"protocol must match": {
			service(corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}),
			[]*discoveryv1.EndpointSlice{slice("", 53, endpoint("10.244.1.1", "ready"))},
			map[string][]string{"UDP 10.96.1.2:53": nil},
		},
		"node port": {
			service(corev1.ServicePort{Port: 80, NodePort: 30080}),
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.1", "ready"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080"}, "TCP 10.244.0.1:30080": {"10.244.1.1:8080"}},
		},
		"load balancer": {
			loadBalancer(corev1.ServiceExternalTrafficPolicyCluster, web),
			[]*discoveryv1.EndpointSlice{slice("", 8080, on("sandbox", endpoint("10.244.1.1", "ready")), on("elsewhere", endpoint("10.244.1.2", "ready")))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080", "10.244.1.2:8080"}, "TCP 10.97.0.5:80": {"10.244.1.1:8080", "10.244.1.2:8080"}},
		},
		"load balancer, node's own endpoints": {
			loadBalancer(corev1.ServiceExternalTrafficPolicyLocal, corev1.ServicePort{Port: 80, NodePort: 30080}),
			[]*discoveryv1.EndpointSlice{slice("", 8080, on("sandbox", endpoint("10.244.1.1", "ready")), on("elsewhere", endpoint("10.244.1.2", "ready")), endpoint("10.244.1.3", "ready"))},
			map[string][]string{
				"TCP 10.96.1.2:80": {"10.244.1.1:8080", "10.244.1.2:8080", "10.244.1.3:8080"}, "TCP 10.97.0.5:80": {"10.244.1.1:8080"}, "TCP 10.244.0.1:30080": {"10.244.1.1:8080"},
			},
		},
		"ClusterIP, node's own endpoints": {
			&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.1.2", InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal), Ports: []corev1.ServicePort{web}}},
			[]*discoveryv1.EndpointSlice{slice("", 8080, on("sandbox", endpoint("10.244.1.1", "ready")), on("elsewhere", endpoint("10.244.1.2", "ready")))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080"}},
		},
		"load balancer address left by another type": {
			&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.1.2", Ports: []corev1.ServicePort{web}}, Status: balanced("10.97.0.5")},
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.1", "ready"))},
			map[string][]string{"TCP 10.96.1.2:80": {"10.244.1.1:8080"}},
		},
		"headless": {
			&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}, Ports: []corev1.ServicePort{web}}},
			[]*discoveryv1.EndpointSlice{slice("", 8080, endpoint("10.244.1.1", "ready"))},
			map[string][]string{},
		},
		"external name": {
			&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b", Ports: []corev1.ServicePort{web}}},
			nil,
			map[string][]string{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string][]string{}
			for f, b := range frontends(tt.service, tt.slices, node) {
				var endpoints []string
				for _, e := range b.endpoints {
					endpoints = append(endpoints, e.String())
				}
				got[string(f.protocol)+" "+f.address.String()] = endpoints
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("frontends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	endpoints := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1"), netip.MustParseAddrPort("10.0.0.3:1")}
	turn := map[netip.AddrPort]int{}
	for n := range uint32(300) {
		endpoint, err := backends{endpoints: endpoints}.choose(n, netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		turn[endpoint]++
	}
	for _, e := range endpoints {
		if turn[e] != 100 {
			t.Errorf("%s was chosen %d times of 300, want 100", e, turn[e])
		}
	}
	if got, err := (backends{}).choose(3, netip.Addr{}); err == nil {
		t.Errorf("chose %v of no endpoints", got)
	}
}

func TestStickyClientKeepsItsEndpoint(t *testing.T) {
	endpoints := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1"), netip.MustParseAddrPort("10.0.0.3:1")}
	choose := func(n uint32, client netip.Addr, of []netip.AddrPort) netip.AddrPort {
		endpoint, err := backends{endpoints: of, sticky: true}.choose(n, client)
		if err != nil {
			t.Fatal(err)
		}
		return endpoint
	}
	chosen := map[netip.AddrPort]int{}
	for i := range byte(200) {
		client := netip.AddrFrom4([4]byte{10, 244, 1, i})
		was := choose(uint32(i), client, endpoints)
		if again := choose(uint32(i)+1, client, endpoints); again != was {
			t.Fatalf("%s went to %s, then to %s", client, was, again)
		}
		if now := choose(0, client, endpoints[:2]); was != endpoints[2] && now != was {
			t.Errorf("%s moved from %s to %s, though only %s went away", client, was, now, endpoints[2])
		}
		chosen[was]++
	}
	if len(chosen) != 3 {
		t.Errorf("200 clients went to %v, want some to each of three", chosen)
	}
}
