package envoy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"
)

// BootstrapOptions say where an Envoy finds its interceptor.
type BootstrapOptions struct {
	// XDSAddress is the interceptor's xDS Service, host:port; required.
	XDSAddress string
	// AdminAddress is where everybody may read the state of Envoy, host:port;
	// 0.0.0.0:9901 unless set. With [::]:9901 it takes IPv4 too. It answers GET of the
	// adminPaths alone, once Envoy has its first configuration.
	AdminAddress string
	// AdminPort is that of the whole admin interface, on 127.0.0.1; 9902 unless
	// set. Whoever reaches it can stop Envoy.
	AdminPort uint16
	// ReadyPort, on the host of AdminAddress, answers GET of /ready alone, for the
	// kubelet; 9903 unless set.
	ReadyPort uint16
	// Namespaces are all the namespaces whose HTTPScaledObjects this Envoy
	// serves; none for all.
	Namespaces []string
	// SotW selects the state-of-the-world protocol (GRPC) instead of the incremental
	// one (DELTA_GRPC).
	SotW bool
	// MaxConnections bounds the connections of clients; 50,000 unless set.
	MaxConnections int64
	// MaxHeap is how many bytes of memory this Envoy may use; 0 is for any
	// number. From nine tenths of it new requests are answered 503.
	MaxHeap uint64

	// CAFile has the authority of the interceptor's certificate; CertFile and KeyFile
	// are Envoy's own certificate and key. All three are paths of PEM files where Envoy
	// runs, which reads them when it starts, for mutual TLS. Without any, Envoy uses
	// HTTP/2 without TLS.
	CAFile, CertFile, KeyFile string
	// SecretsDir is the directory, where Envoy runs, of the files that SecretFiles
	// returns. With it Envoy reads the three files again when they change.
	SecretsDir string
	// ServerName is the name that the interceptor's certificate must have; the host of
	// XDSAddress unless set.
	ServerName string
	// FallbackAddress is the interceptor's Service for requests to a backend without an
	// endpoint, host:port. With mutual TLS these requests go there, with the same
	// files. If it is not set, or without mutual TLS, they go without TLS to the
	// addresses that the interceptor gives.
	FallbackAddress string
}

// Bootstrap returns the configuration that `envoy -c` takes, in YAML. The same
// options give the same bytes.
func Bootstrap(o BootstrapOptions) ([]byte, error) {
	defaultTo(&o.AdminAddress, "0.0.0.0:9901")
	defaultTo(&o.AdminPort, 9902)
	defaultTo(&o.ReadyPort, 9903)
	defaultTo(&o.MaxConnections, 50_000)
	if o.MaxConnections < 0 {
		return nil, fmt.Errorf("the bound of connections is %d; expected more than 0", o.MaxConnections)
	}
	if slices.Contains(o.Namespaces, "") {
		return nil, errors.New("one of the namespaces is empty; expected names, or no namespaces for all")
	}
	admin, host, err := addressOf("admin address", o.AdminAddress)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		admin.GetSocketAddress().Ipv4Compat = takesBoth(ip)
	}
	if admin.GetSocketAddress().GetPortValue() == uint32(o.AdminPort) {
		return nil, fmt.Errorf("the admin address and the admin port are both %d; expected two ports", o.AdminPort)
	}
	if port := uint32(o.ReadyPort); o.ReadyPort == o.AdminPort || port == admin.GetSocketAddress().GetPortValue() {
		return nil, fmt.Errorf("the ready port is %d; expected another one than for the admin interface", port)
	}
	ready := proto.CloneOf(admin)
	ready.GetSocketAddress().PortSpecifier = &corev3.SocketAddress_PortValue{PortValue: uint32(o.ReadyPort)}
	xds, err := xdsCluster(o)
	if err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: NodeID, Cluster: NodeID},
		// The preStop hook must get in when clients do not.
		Admin: &bootstrapv3.Admin{Address: loopback(o.AdminPort), IgnoreGlobalConnLimit: true},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			LdsConfig: adsSource(),
			CdsConfig: adsSource(),
			AdsConfig: fromInterceptor(corev3.ApiConfigSource_DELTA_GRPC),
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: []*clusterv3.Cluster{xds, adminCluster(loopback(o.AdminPort))},
			Listeners: []*listenerv3.Listener{
				adminListener(adminName, admin, adminRoutes(o.AdminPort)), adminListener(readyName, ready, readyRoutes()),
			},
		},
		OverloadManager: overloadManager(o),
	}
	saveMemory(b)
	b.ClusterManager.LoadStatsConfig = fromInterceptor(corev3.ApiConfigSource_GRPC)
	if o.SotW {
		b.DynamicResources.AdsConfig.ApiType = corev3.ApiConfigSource_GRPC
	}
	metadata := make(map[string]*structpb.Value)
	if xds.TransportSocket != nil && o.FallbackAddress != "" {
		if err := addFallback(b, o); err != nil {
			return nil, err
		}
		metadata[FallbackTLSKey] = structpb.NewBoolValue(true)
	}
	if len(o.Namespaces) > 0 {
		names := &structpb.ListValue{}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(o.Namespaces))) {
			names.Values = append(names.Values, structpb.NewStringValue(name))
		}
		metadata[NamespacesKey] = structpb.NewListValue(names)
	}
	if len(metadata) > 0 {
		b.Node.Metadata = &structpb.Struct{Fields: metadata}
	}
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("this makes no bootstrap: %w", err)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap: %w", err)
	}
	return yaml.JSONToYAML(text)
}

// fromInterceptor returns the source of a service at the interceptor's xDS port.
func fromInterceptor(kind corev3.ApiConfigSource_ApiType) *corev3.ApiConfigSource {
	return &corev3.ApiConfigSource{
		ApiType:                   kind,
		TransportApiVersion:       corev3.ApiVersion_V3,
		SetNodeOnFirstMessageOnly: true,
		GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: XDSClusterName},
		}}},
	}
}

func xdsCluster(o BootstrapOptions) (*clusterv3.Cluster, error) {
	address, host, err := addressOf("xDS address", o.XDSAddress)
	if err != nil {
		return nil, err
	}
	c := &clusterv3.Cluster{
		Name:                 XDSClusterName,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		ConnectTimeout:       seconds(5),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpOptionsName: packed(&httpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
							ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: seconds(30), Timeout: seconds(5)},
						},
					},
				},
			},
		})},
		LoadAssignment: assignmentOf(XDSClusterName, address),
	}
	files := []string{o.CAFile, o.CertFile, o.KeyFile}
	switch {
	case !slices.Contains(files, ""):
		c.TransportSocket = mutualTLS(o, host, "h2")
	case strings.Join(files, "") != "":
		return nil, errors.New("mutual TLS needs three files: the authority, the certificate and its key")
	case o.ServerName != "":
		return nil, errors.New("a server name is for mutual TLS, and there are no files for it")
	case o.SecretsDir != "":
		return nil, errors.New("a directory of secrets is for mutual TLS, and there are no files for it")
	}
	return c, nil
}

// assignmentOf returns the assignment of a cluster of the bootstrap, which has one
// address.
func assignmentOf(cluster string, address *corev3.Address) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: cluster,
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpointsAt([]*corev3.Address{address}, nil)}},
	}
}

// mutualTLS returns a transport socket that presents Envoy's certificate to the
// interceptor and verifies the interceptor's: that of the xDS server, whose host this
// is.
func mutualTLS(o BootstrapOptions, host string, protocols ...string) *corev3.TransportSocket {
	defaultTo(&o.ServerName, host)
	san := &tlsv3.SubjectAltNameMatcher{
		SanType: tlsv3.SubjectAltNameMatcher_DNS,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: o.ServerName}},
	}
	sni := o.ServerName
	if net.ParseIP(o.ServerName) != nil {
		san.SanType, sni = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, ""
	}
	common := &tlsv3.CommonTlsContext{
		TlsParams:     &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2},
		AlpnProtocols: protocols,
	}
	validation := &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{san}}
	if o.SecretsDir != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secretIn(o.SecretsDir, CertificateFileName)}
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         validation,
				ValidationContextSdsSecretConfig: secretIn(o.SecretsDir, AuthorityFileName),
			},
		}
	} else {
		validation.TrustedCa = file(o.CAFile)
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: file(o.CertFile), PrivateKey: file(o.KeyFile)}}
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation}
	}
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.UpstreamTlsContext{
			Sni: sni, CommonTlsContext: common,
		})},
	}
}

func file(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

// takesBoth tells whether a listener on an address should take IPv4 beside IPv6.
func takesBoth(ip netip.Addr) bool { return ip == netip.IPv6Unspecified() }

// addressOf reads host:port.
func addressOf(what, text string) (*corev3.Address, string, error) {
	host, digits, err := net.SplitHostPort(text)
	port, badPort := strconv.ParseUint(digits, 10, 16)
	if err != nil || badPort != nil || host == "" || port == 0 {
		return nil, "", fmt.Errorf("the %s is %q; expected host:port", what, text)
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}, host, nil
}
