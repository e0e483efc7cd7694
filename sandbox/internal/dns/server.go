// Package dns is the sandbox's cluster DNS: the names of Services as any cluster
// has them, a few extra hosts, and nothing else. It asks no other server, so a
// name outside of the sandbox does not exist.
package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// Domain is the cluster domain.
const Domain = "cluster.local"

// Server answers for the cluster domain. Use New.
type Server struct {
	log     *slog.Logger
	address netip.AddrPort
	records records
	synced  []cache.InformerSynced
}

// New prepares a server for address, which Run listens on with UDP and TCP. The
// names come from factory's watches, which the caller starts afterwards; hosts
// are extra names, with or without a dot at the end.
func New(factory informers.SharedInformerFactory, address netip.AddrPort, hosts map[string]netip.Addr, log *slog.Logger) *Server {
	services := factory.Core().V1().Services()
	endpointSlices := factory.Discovery().V1().EndpointSlices()
	return &Server{
		log:     log,
		address: address,
		records: newRecords(watched{services.Lister(), endpointSlices.Lister()}, hosts),
		synced:  []cache.InformerSynced{services.Informer().HasSynced, endpointSlices.Informer().HasSynced},
	}
}

func newRecords(source Source, hosts map[string]netip.Addr) records {
	r := records{source: source, zone: Domain + ".", hosts: map[string]netip.Addr{}}
	for name, ip := range hosts {
		r.hosts[dns.CanonicalName(name)] = ip
	}
	return r
}

// Run serves until ctx ends. The error says which address could not be listened
// on.
func (s *Server) Run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return nil
	}
	packets, err := net.ListenPacket("udp4", s.address.String())
	if err != nil {
		return fmt.Errorf("cluster DNS: %w", err)
	}
	streams, err := net.Listen("tcp4", s.address.String())
	if err != nil {
		return errors.Join(fmt.Errorf("cluster DNS: %w", err), packets.Close())
	}
	handler := dns.HandlerFunc(s.answer)
	servers := []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}}
	failed := make(chan error, len(servers))
	for _, server := range servers {
		go func() { failed <- server.ActivateAndServe() }()
	}
	s.log.Info("cluster DNS serves", "address", s.address)
	select {
	case err = <-failed:
		err = fmt.Errorf("cluster DNS on %s: %w", s.address, err)
	case <-ctx.Done():
		err = nil
	}
	// Not Shutdown: it waits for queries, and fails on a server that has not
	// got round to serving yet.
	return errors.Join(err, ignoreClosed(packets.Close()), ignoreClosed(streams.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := s.records.reply(query)
	if _, overUDP := w.RemoteAddr().(*net.UDPAddr); overUDP {
		size := dns.MinMsgSize
		if o := query.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
		reply.Truncate(size)
	}
	if err := w.WriteMsg(reply); err != nil {
		s.log.Debug("cluster DNS: answer", "client", w.RemoteAddr(), "err", err)
	}
}

// reply answers a message as a whole.
func (r records) reply(query *dns.Msg) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative = true
	// Clients that see no recursion offered may distrust the answer.
	reply.RecursionAvailable = true
	if query.Opcode != dns.OpcodeQuery {
		return reply.SetRcode(query, dns.RcodeNotImplemented)
	}
	if len(query.Question) != 1 || query.Question[0].Qclass != dns.ClassINET && query.Question[0].Qclass != dns.ClassANY {
		return reply.SetRcode(query, dns.RcodeRefused)
	}
	question := query.Question[0]
	answers, code := r.lookup(question.Name, question.Qtype)
	for _, rr := range answers {
		// Some resolvers require the case of the name that they asked for.
		if strings.EqualFold(rr.Header().Name, question.Name) {
			rr.Header().Name = question.Name
		}
	}
	reply.Answer, reply.Rcode = answers, code
	if len(answers) == 0 {
		reply.Ns = []dns.RR{&dns.SOA{
			Hdr: header(r.zone, dns.TypeSOA), Ns: "ns.dns." + r.zone, Mbox: "hostmaster." + r.zone,
			Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
		}}
	}
	return reply
}

// watched reads from the caches of watches.
type watched struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

func (w watched) Service(namespace, name string) *corev1.Service {
	service, err := w.services.Services(namespace).Get(name)
	if err != nil {
		return nil
	}
	return service
}

func (w watched) Slices(namespace, name string) []*discoveryv1.EndpointSlice {
	list, err := w.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name}))
	if err != nil {
		return nil
	}
	return list
}

func (w watched) ByClusterIP(ip netip.Addr) *corev1.Service {
	list, err := w.services.List(labels.Everything())
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(list, func(s *corev1.Service) bool { return slices.Contains(clusterIPs(s), ip) })
	if i < 0 {
		return nil
	}
	return list[i]
}

func (w watched) HasNamespace(namespace string) bool {
	list, err := w.services.Services(namespace).List(labels.Everything())
	return err == nil && len(list) > 0
}

// ResolvConf is the content of /etc/resolv.conf for a pod of a namespace.
func ResolvConf(namespace string, server netip.Addr) string {
	return fmt.Sprintf("search %[1]s.svc.%[2]s svc.%[2]s %[2]s\nnameserver %[3]s\noptions ndots:5\n", namespace, Domain, server)
}
