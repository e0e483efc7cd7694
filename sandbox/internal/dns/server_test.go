package dns

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func objects() []runtime.Object {
	service := func(namespace, name string, spec corev1.ServiceSpec) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	}
	http := corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}
	return []runtime.Object{
		service("default", "kubernetes", corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}),
		service("demo", "web", corev1.ServiceSpec{ClusterIP: "10.96.5.5", ClusterIPs: []string{"10.96.5.5"}, Ports: []corev1.ServicePort{http}}),
		service("demo", "db", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{http}}),
		service("demo", "empty", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}),
		service("demo", "outside", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}),
		service("demo", "inside", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.demo.svc.cluster.local"}),
		service("demo", "loop", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "loop.demo.svc.cluster.local"}),
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.244.1.2"}, Hostname: ptr.To("db-0")},
				{Addresses: []string{"10.244.1.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
				{Addresses: []string{"10.244.1.3"}, Hostname: ptr.To("db-2"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			},
		},
	}
}

func newServer(t *testing.T, address string) *Server {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects()...), 0)
	s := New(factory, netip.MustParseAddrPort(address), map[string]netip.Addr{"releases.sandbox": netip.MustParseAddr("10.244.0.1")}, slog.New(slog.DiscardHandler))
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return s
}

func TestReply(t *testing.T) {
	s := newServer(t, "127.0.0.1:0")
	tests := []struct {
		name  string
		qtype uint16
		code  int
		want  []string
	}{
		{"kubernetes.default.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.96.0.1"}},
		{"web.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.96.5.5"}},
		{"WEB.Demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.96.5.5"}},
		// The name exists without an AAAA record: a resolver must not give up on A.
		{"web.demo.svc.cluster.local.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"gone.demo.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"pod.web.demo.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"nowhere.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"db.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.244.1.1", "10.244.1.2"}},
		{"db-0.db.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.244.1.2"}},
		{"10-244-1-1.db.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.244.1.1"}},
		{"db-2.db.demo.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"empty.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, nil},
		{"_http._tcp.web.demo.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, []string{"web.demo.svc.cluster.local.:80"}},
		{"_http._udp.web.demo.svc.cluster.local.", dns.TypeSRV, dns.RcodeNameError, nil},
		{"_http._tcp.db.demo.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, []string{"10-244-1-1.db.demo.svc.cluster.local.:8080", "db-0.db.demo.svc.cluster.local.:8080"}},
		{"_https._tcp.kubernetes.default.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, []string{"kubernetes.default.svc.cluster.local.:443"}},
		{"web.demo.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess, []string{"web.demo.svc.cluster.local.:80"}},
		{"outside.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"example.com."}},
		{"inside.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"web.demo.svc.cluster.local.", "10.96.5.5"}},
		{"loop.demo.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"loop.demo.svc.cluster.local."}},
		{"10-244-1-9.demo.pod.cluster.local.", dns.TypeA, dns.RcodeSuccess, []string{"10.244.1.9"}},
		{"x.demo.pod.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"5.5.96.10.in-addr.arpa.", dns.TypePTR, dns.RcodeSuccess, []string{"web.demo.svc.cluster.local."}},
		{"9.9.96.10.in-addr.arpa.", dns.TypePTR, dns.RcodeNameError, nil},
		{"releases.sandbox.", dns.TypeA, dns.RcodeSuccess, []string{"10.244.0.1"}},
		{"releases.sandbox.", dns.TypeAAAA, dns.RcodeSuccess, nil},
		{"releases.sandbox.demo.svc.cluster.local.", dns.TypeA, dns.RcodeNameError, nil},
		{"example.com.", dns.TypeA, dns.RcodeNameError, nil},
		{".", dns.TypeA, dns.RcodeNameError, nil},
		{"notcluster.local.", dns.TypeA, dns.RcodeNameError, nil},
	}
	for _, tt := range tests {
		t.Run(dns.TypeToString[tt.qtype]+" "+tt.name, func(t *testing.T) {
			reply := s.records.reply(new(dns.Msg).SetQuestion(tt.name, tt.qtype))
			if reply.Rcode != tt.code {
				t.Errorf("code %s, want %s", dns.RcodeToString[reply.Rcode], dns.RcodeToString[tt.code])
			}
			if diff := cmp.Diff(tt.want, texts(reply.Answer)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if len(reply.Answer) > 0 && reply.Answer[0].Header().Name != tt.name {
				t.Errorf("answer for %q, asked %q", reply.Answer[0].Header().Name, tt.name)
			}
		})
	}
}

func texts(answers []dns.RR) []string {
	var list []string
	for _, rr := range answers {
		switch rr := rr.(type) {
		case *dns.A:
			list = append(list, rr.A.String())
		case *dns.CNAME:
			list = append(list, rr.Target)
		case *dns.PTR:
			list = append(list, rr.Ptr)
		case *dns.SRV:
			list = append(list, net.JoinHostPort(rr.Target, strconv.Itoa(int(rr.Port))))
		default:
			list = append(list, rr.String())
		}
	}
	return list
}

func FuzzLookup(f *testing.F) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	s := New(factory, netip.AddrPort{}, nil, slog.New(slog.DiscardHandler))
	for _, name := range []string{".", "a.svc.cluster.local.", "_._.a.b.svc.cluster.local.", "1.in-addr.arpa.", "", "..", ".svc.cluster.local."} {
		f.Add(name, dns.TypeA)
	}
	f.Fuzz(func(t *testing.T, name string, qtype uint16) {
		if answers, code := s.records.lookup(name, qtype); code != dns.RcodeSuccess && len(answers) > 0 {
			t.Errorf("lookup(%q) = %v with code %d", name, answers, code)
		}
	})
}

func TestRunServesUDPAndTCP(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for _, network := range []string{"udp", "tcp"} {
		client := &dns.Client{Net: network, Timeout: time.Second}
		deadline := time.Now().Add(time.Minute)
		for {
			reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("web.demo.svc.cluster.local.", dns.TypeA), address)
			if err == nil {
				if diff := cmp.Diff([]string{"10.96.5.5"}, texts(reply.Answer)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", network, diff)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", network, err)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestResolvConf(t *testing.T) {
	want := "search demo.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
	if diff := cmp.Diff(want, ResolvConf("demo", netip.MustParseAddr("10.96.0.10"))); diff != "" {
		t.Errorf("ResolvConf (-want +got):\n%s", diff)
	}
}
