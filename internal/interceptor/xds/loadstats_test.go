package xds

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/peerlimit"
)

// fakeReporter is a client that reports as an Envoy does.
type fakeReporter struct {
	loadstatsv3.LoadReportingService_StreamLoadStatsClient
	t testing.TB
}

// dialLoads serves a world, and returns a connection to it.
func (w *world) dialLoads() *grpc.ClientConn {
	w.t.Helper()
	c, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", w.listen()), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// newReporter begins a stream of an Envoy for these namespaces, or for all if none is given.
func newReporter(t testing.TB, c *grpc.ClientConn, namespaces ...string) *fakeReporter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := loadstatsv3.NewLoadReportingServiceClient(c).StreamLoadStats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := &fakeReporter{stream, t}
	node := theNode
	if len(namespaces) > 0 {
		list := &structpb.ListValue{}
		for _, name := range namespaces {
			list.Values = append(list.Values, structpb.NewStringValue(name))
		}
		node = &corev3.Node{Id: envoy.NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{envoy.NamespacesKey: structpb.NewListValue(list)}}}
	}
	_ = r.Send(&loadstatsv3.LoadStatsRequest{Node: node}) // Recv has the error
	return r
}

// asked returns how often the Envoy is asked to report.
func (r *fakeReporter) asked() time.Duration {
	r.t.Helper()
	m, err := r.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	if !m.GetSendAllClusters() || m.GetReportEndpointGranularity() {
		r.t.Errorf("asked for %v; want all clusters, and no endpoints", m)
	}
	return m.GetLoadReportingInterval().AsDuration()
}

func (r *fakeReporter) report(stats ...*endpointv3.ClusterStats) {
	r.t.Helper()
	if err := r.Send(&loadstatsv3.LoadStatsRequest{ClusterStats: stats}); err != nil {
		r.t.Fatal(err)
	}
}

// Only objects that are there count, in namespaces that the Envoy may have, and with figures
// that can be. What a report leaves out has no request under way.
func TestLoadsThatCount(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	for _, namespace := range []string{"demo", "foreign"} {
		w.serviceIn(namespace, "app", "", "10.0.0.1:80")
		w.objectIn(namespace, "app", onHost(namespace+".example.com", "/"))
	}
	w.commit()
	s := follow(t, w.ledger)
	r := newReporter(t, w.dialLoads(), "demo")
	if got := r.asked(); got != time.Second {
		t.Errorf("asked to report each %v; want a second", got)
	}
	all := []*endpointv3.ClusterStats{
		statsOf("demo/app/stable", 0, 5, 2), statsOf("demo/app/canary", 0, 3, 1), statsOf("demo/app/canary", 1, 100, 100),
		statsOf("foreign/app/app", 0, 100, 100),
		statsOf("demo/app/bad", 0, math.MaxUint64, 1),
		statsOf("demo/app/much", 0, maxLoad, 0),
		statsOf("demo/app", 0, 100, 100), statsOf("", 0, 100, 100), statsOf("xds_cluster", 0, 100, 100),
		statsOf("demo/app/"+strings.Repeat("a", maxNameBytes), 0, 100, 100),
	}
	for i := range 1000 {
		all = append(all, statsOf(fmt.Sprint("demo/unknown-", i, "/app"), 0, 1, 1))
	}
	r.report(all...)
	s.counts(t, "demo/app", 8, 3)
	r.report(statsOf("demo/app/stable", 0, 0, 1))
	s.counts(t, "demo/app", 8, 1)
	r.report(&endpointv3.ClusterStats{ClusterName: "demo/app/stable"})
	s.counts(t, "demo/app", 8, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, objects := range s.objects {
		for name := range objects {
			if name != "demo/app" {
				t.Errorf("%s is in the ledger", name)
			}
		}
	}
}

// An Envoy with thousands of clusters reports less often.
func TestLoadInterval(t *testing.T) {
	for clusters, want := range map[int]time.Duration{0: time.Second, 1999: time.Second, 2000: 2 * time.Second, 10_000: 6 * time.Second, 1_000_000: 10 * time.Second} {
		if got := loadInterval(clusters); got != want {
			t.Errorf("%d clusters: %v; want %v", clusters, got, want)
		}
	}
	w := newWorld(t, envoy.Options{})
	w.commit()
	r := newReporter(t, w.dialLoads())
	r.asked()
	idle := make([]*endpointv3.ClusterStats, 4000)
	for i := range idle {
		idle[i] = &endpointv3.ClusterStats{ClusterName: fmt.Sprint("demo/app/", i)}
	}
	r.report(idle...)
	if got := r.asked(); got != 3*time.Second {
		t.Errorf("asked to report each %v; want 3s", got)
	}
	r.report()
	if got := r.asked(); got != time.Second {
		t.Errorf("asked to report each %v; want a second", got)
	}
}

// A client that is no Envoy of ours, or sends no report, is told what is wrong.
func TestLoadsThatAreTurnedAway(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	c := w.dialLoads()
	many := &structpb.ListValue{Values: make([]*structpb.Value, maxRequestMessages)}
	for i := range many.Values {
		many.Values[i] = &structpb.Value{}
	}
	for what, tt := range map[string]struct {
		node *corev3.Node
		code codes.Code
	}{
		"no node":                 {nil, codes.InvalidArgument},
		"another node":            {&corev3.Node{Id: "other"}, codes.InvalidArgument},
		"a node of small values":  {&corev3.Node{Id: envoy.NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"all": structpb.NewListValue(many)}}}, codes.InvalidArgument},
		"a node that is too long": {&corev3.Node{Id: strings.Repeat("a", maxRequestBytes)}, codes.ResourceExhausted},
	} {
		t.Run(what, func(t *testing.T) {
			stream, err := loadstatsv3.NewLoadReportingServiceClient(c).StreamLoadStats(t.Context())
			if err == nil {
				_ = stream.Send(&loadstatsv3.LoadStatsRequest{Node: tt.node}) // Recv has the error
				_, err = stream.Recv()
			}
			if status.Code(err) != tt.code {
				t.Errorf("%v; want %v", err, tt.code)
			}
		})
	}
}

// A stream of reports takes a place of its address. A connection on which reports come all
// the time serves its other stream: what is handled is not counted.
func TestLoadsBesideConfiguration(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.streamLimit = peerlimit.New(10, 2) })
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	c := w.dialLoads()
	s := follow(t, w.ledger)
	e := newFake(t, discoveryv3.NewAggregatedDiscoveryServiceClient(c), false)
	e.run()
	e.has(w)
	r := newReporter(t, c)
	r.asked()
	if used := w.server.Limits()[0].Used; used != 2 {
		t.Errorf("%v streams; want 2", used)
	}
	large := &endpointv3.ClusterStats{ClusterName: strings.Repeat("a", 8<<20)}
	var sent int64
	for bytes := 0; bytes < 2*maxUnhandledBytes; bytes += 8 << 20 {
		r.report(large, statsOf("demo/app/app", 0, 1, 0))
		sent++
		s.counts(t, "demo/app", sent, 0)
	}
	w.object("more", "app=1")
	w.commit()
	e.has(w)
	e.check()
}

// A stream of reports ends after a report when its connection is old.
func TestLoadsEndAsConnectionsAge(t *testing.T) {
	w := newWorld(t, envoy.Options{}, func(s *Server) { s.settings.MaxConnectionAge = time.Second })
	w.commit()
	r := newReporter(t, w.dialLoads())
	r.asked()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Recv()
		ended <- err
	}()
	var err error
	eventually(t, "the stream's end", func() bool {
		_ = r.Send(&loadstatsv3.LoadStatsRequest{}) // Recv has the error
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "--xds-max-connection-age") {
		t.Errorf("the stream ended with %v", err)
	}
}

// An interceptor that has lost the API server keeps a stream of reports until that has an
// object which the interceptor does not know: another one counts the requests to it.
func TestLoadsOfObjectsMadeAfterTheAPIServerWasLost(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	s := follow(t, w.ledger)
	r := newReporter(t, w.dialLoads(), "demo")
	r.asked()
	made := statsOf("demo/made/app", 0, 1, 1)
	r.report(statsOf("demo/app/app", 0, 1, 1), made)
	s.counts(t, "demo/app", 1, 1)
	w.server.Withdraw()
	r.report(statsOf("demo/app/app", 0, 1, 2), statsOf("foreign/made/app", 0, 1, 1))
	s.counts(t, "demo/app", 2, 2)
	r.report(statsOf("demo/app/app", 0, 1, 1), made)
	if _, err := r.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "API server") {
		t.Errorf("the stream ended with %v", err)
	}
	s.counts(t, "demo/app", 3, 0)
}

// An interceptor that has just started takes no report before it knows the objects, and
// tells nobody that the Envoy has no requests.
func TestLoadsBeforeObjectsAreKnown(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	s := follow(t, w.ledger)
	r := newReporter(t, w.dialLoads())
	r.report(statsOf("demo/app/app", 0, 5, 2))
	eventually(t, "the stream", func() bool { return w.server.Limits()[0].Used == 1 })
	if n := s.streams(); n != 0 {
		t.Errorf("scalers are told of %d streams", n)
	}
	w.commit()
	s.counts(t, "demo/app", 5, 2)
}

// A report of objects that are not there takes little memory besides its bytes.
func TestLoadsOfManyUnknownObjects(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	all := &loadstatsv3.LoadStatsRequest{}
	for i := range 200_000 {
		all.ClusterStats = append(all.ClusterStats, statsOf(fmt.Sprintf("a/%x/b", i), 0, 1, 0))
	}
	report := loadReport(marshal(all))
	st := &loadStream{server: w.server, source: w.ledger.Stream("10.0.0.1", ""), interval: loadInterval(len(all.GetClusterStats()))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := st.take(report)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; err != nil || bytes > 4*uint64(len(report)) {
		t.Errorf("a report of %d bytes took %d bytes more (%v)", len(report), bytes, err)
	}
}
