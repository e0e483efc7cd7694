package xds

import (
	"fmt"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/loads"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// loadService is Envoy's load reporting service (LRS): Envoys report how many requests each
// of their clusters got.
type loadService struct {
	loadstatsv3.UnimplementedLoadReportingServiceServer
	server *Server
}

// StreamLoadStats takes the reports of one Envoy.
func (s *loadService) StreamLoadStats(stream loadstatsv3.LoadReportingService_StreamLoadStatsServer) error {
	return s.server.takeLoads(stream)
}

// loadStream takes the reports of one Envoy.
type loadStream struct {
	server     *Server
	stream     grpc.ServerStream
	log        *slog.Logger
	peer       string // address of the Envoy, with its port
	name       proxyName
	namespaces routes.Namespaces
	source     *loads.Source
	interval   time.Duration // that the Envoy was told; 0 before
}

// takeLoads takes the reports of an Envoy until its stream ends. An Envoy reports the
// requests between two streams in the first message of the second one, so that a stream that
// ends right after a report loses none.
func (s *Server) takeLoads(stream grpc.ServerStream) error {
	client, ok := peer.FromContext(stream.Context())
	if !ok {
		return status.Error(codes.Internal, "the address of the Envoy is not known")
	}
	ends := s.settings.streamEnd()
	defer s.streamLimit.Take(client.Addr, func() { s.displaced(client.Addr) }).Release()
	st := &loadStream{server: s, stream: stream, log: s.log.With("envoy", client.Addr.String()), peer: client.Addr.String()}
	var report loadReport
	if err := stream.RecvMsg(&report); err != nil {
		return ending(err)
	}
	if err := st.identify(report, client); err != nil {
		st.log.Warn("load reports of an Envoy were turned away", "reason", status.Convert(err).Message())
		return err
	}
	s.metrics.loadStreams.Inc()
	defer s.metrics.loadStreams.Dec()
	st.name.address = peerlimit.Address(client.Addr)
	defer s.reporters.reports(st.name)()
	select {
	case <-s.updated: // before that no object is known, and none would be counted
	case <-s.closing:
		return errShutdown
	case <-stream.Context().Done():
		return ending(stream.Context().Err())
	}
	st.source = s.ledger.Stream(st.name.address, st.name.pod)
	defer st.source.End()
	for {
		if err := st.take(report); err != nil {
			return err
		}
		select {
		case <-s.closing:
			return errShutdown
		default:
		}
		if !ends.IsZero() && time.Now().After(ends) {
			return errOld
		}
		report = nil
		if err := stream.RecvMsg(&report); err != nil {
			return ending(err)
		}
	}
}

// identify finds out which namespaces the Envoy of a first report may report.
func (st *loadStream) identify(first loadReport, client *peer.Peer) error {
	encoded, err := first.node()
	if err == nil && len(encoded) > maxRequestMessages {
		err = fmt.Errorf("a node of %d bytes; expected %d at most", len(encoded), maxRequestMessages)
	}
	var node corev3.Node
	if err == nil {
		err = proto.Unmarshal(encoded, &node)
	}
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	names, _ := shownBy(client)
	namespaces, err := st.server.namespacesFor(&node, names)
	st.namespaces = setOf(namespaces)
	st.name.pod = podWithin(podOf(&node), st.namespaces)
	return err
}

// take counts a report, and tells the Envoy when to send the next ones. It fails for objects
// that are not known here because this interceptor has lost the API server: another one
// counts them.
func (st *loadStream) take(report loadReport) error {
	objects, unknown := make(map[types.NamespacedName]clusterLoad), false
	named, err := report.clusters(func(name []byte, load clusterLoad) {
		if len(name) > maxNameBytes {
			return
		}
		object, _, ok := routes.ParseClusterName(string(name))
		if !ok || !st.namespaces.HasObject(object) {
			return
		}
		if !st.server.ledger.Exists(object) {
			unknown = true
			return
		}
		if sum, within := objects[object].plus(load); within {
			objects[object] = sum
		}
	})
	st.server.connections.handled(st.peer, len(report))
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "a load report that is none: %v", err)
	}
	figures := make(map[types.NamespacedName]loads.Figures, len(objects))
	for object, load := range objects {
		figures[object] = loads.Figures{Requests: int64(load.issued), Active: int64(load.active)}
	}
	st.source.Report(figures)
	st.server.metrics.loadReports.Inc()
	if unknown && st.server.isWithdrawn() {
		return errWithdrawn
	}
	interval := loadInterval(named)
	if interval == st.interval {
		return nil
	}
	st.interval = interval
	return st.stream.SendMsg(&loadstatsv3.LoadStatsResponse{
		SendAllClusters: true, LoadReportingInterval: durationpb.New(interval),
	})
}

// clustersASecond is how many clusters an Envoy may report each second. With 10,000 clusters
// and a report a second, Envoy 1.40 takes three times the CPU time of an idle one; with a
// report each six seconds, 1.8 times.
const clustersASecond = 2000

// loadInterval returns how often an Envoy with so many clusters is to report. It names all
// of them in each report, which costs the more CPU time the more there are.
func loadInterval(clusters int) time.Duration {
	return time.Second * time.Duration(min(1+clusters/clustersASecond, 10))
}
