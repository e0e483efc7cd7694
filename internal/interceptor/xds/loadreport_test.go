package xds

import (
	"math"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

// statsOf returns the figures of a cluster at one priority.
func statsOf(cluster string, priority uint32, issued, active uint64) *endpointv3.ClusterStats {
	return &endpointv3.ClusterStats{ClusterName: cluster, UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
		Locality: &corev3.Locality{}, Priority: priority,
		TotalIssuedRequests: issued, TotalRequestsInProgress: active, TotalSuccessfulRequests: issued,
	}}}
}

// A report counts what went to endpoints at priority 0, over all localities, and names idle
// clusters, too. Impossible figures count as none.
func TestLoadReport(t *testing.T) {
	several := statsOf("demo/app/app", 0, 3, 1)
	several.UpstreamLocalityStats = append(several.UpstreamLocalityStats, statsOf("", 1, 100, 100).UpstreamLocalityStats...)
	several.UpstreamLocalityStats = append(several.UpstreamLocalityStats, statsOf("", 0, 4, 2).UpstreamLocalityStats...)
	overflowing := statsOf("sum", 0, maxLoad, 0)
	overflowing.UpstreamLocalityStats = append(overflowing.UpstreamLocalityStats, statsOf("", 0, 1, 0).UpstreamLocalityStats...)
	report, err := proto.Marshal(&loadstatsv3.LoadStatsRequest{Node: theNode, ClusterStats: []*endpointv3.ClusterStats{
		several,
		{ClusterName: "idle"},
		statsOf("handed over", 1, 7, 7),
		statsOf("long", 0, 0, 5),
		statsOf("largest", 0, maxLoad, maxLoad),
		statsOf("negative", 0, math.MaxUint64, 0),
		statsOf("huge", 0, 1, maxLoad+1),
		overflowing,
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]clusterLoad)
	named, err := loadReport(report).clusters(func(name []byte, load clusterLoad) { got[string(name)] = load })
	if err != nil || named != 8 {
		t.Errorf("%d clusters, %v; want 8", named, err)
	}
	want := map[string]clusterLoad{"demo/app/app": {7, 3}, "long": {0, 5}, "largest": {maxLoad, maxLoad}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(clusterLoad{})); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	node, err := loadReport(report).node()
	if encoded, _ := proto.Marshal(theNode); err != nil || string(node) != string(encoded) {
		t.Errorf("node %q, %v; want %q", node, err, encoded)
	}
}

// Whatever is a LoadStatsRequest for the generated code has the same figures here, and
// nothing panics.
func FuzzLoadReport(f *testing.F) {
	for _, m := range []*loadstatsv3.LoadStatsRequest{
		{Node: theNode},
		{ClusterStats: []*endpointv3.ClusterStats{statsOf("a/b/c", 0, 1, 2), statsOf("d", 1, 3, 4), statsOf("e", 0, math.MaxUint64, 5)}},
	} {
		report, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(report)
	}
	f.Fuzz(func(t *testing.T, report []byte) {
		var got []clusterLoad
		var names []string
		named, err := loadReport(report).clusters(func(name []byte, load clusterLoad) {
			got, names = append(got, load), append(names, string(name))
		})
		_, errOfNode := loadReport(report).node()
		var m loadstatsv3.LoadStatsRequest
		if proto.Unmarshal(report, &m) != nil {
			return
		}
		if err != nil || errOfNode != nil || named != len(m.GetClusterStats()) {
			t.Fatalf("%d clusters, %v, %v; expected %d", named, err, errOfNode, len(m.GetClusterStats()))
		}
		for _, stats := range m.GetClusterStats() {
			var want clusterLoad
			valid := true
			for _, l := range stats.GetUpstreamLocalityStats() {
				if l.GetPriority() > 0 {
					continue
				}
				valid = valid && l.GetTotalIssuedRequests() <= maxLoad && l.GetTotalRequestsInProgress() <= maxLoad
				if valid {
					want.issued += l.GetTotalIssuedRequests()
					want.active += l.GetTotalRequestsInProgress()
					valid = want.issued <= maxLoad && want.active <= maxLoad
				}
			}
			if !valid || want == (clusterLoad{}) {
				continue
			}
			if len(got) == 0 || got[0] != want || names[0] != stats.GetClusterName() {
				t.Fatalf("%v of %q; expected %v of %q", got, names, want, stats.GetClusterName())
			}
			got, names = got[1:], names[1:]
		}
		if len(got) > 0 {
			t.Fatalf("%v of %q are left", got, names)
		}
	})
}
