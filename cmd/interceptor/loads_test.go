package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// reported returns the requests of each namespace's object app that the interceptor tells a
// scaler of, as kedify-proxies have reported them.
func (s *stack) reported() (map[string]int64, error) {
	response, err := http.Get(fmt.Sprint("http://127.0.0.1:", s.o.AdminPort, loadreport.Path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var m loadreport.Message
	if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
		return nil, err
	}
	requests := make(map[string]int64)
	for _, source := range m.Sources {
		for _, o := range source.Objects {
			if source.Address != "" {
				requests[o.Namespace] += o.Requests
			}
		}
	}
	return requests, nil
}

// waitReported waits until kedify-proxies have reported so many requests of a namespace, and
// none of another.
func (s *stack) waitReported(namespace string, want int64, other string) {
	s.t.Helper()
	s.envoy.Wait("requests reported", func() error {
		got, err := s.reported()
		if err == nil && (got[namespace] != want || got[other] != 0) {
			err = fmt.Errorf("%v; want %d of %s alone", got, want, namespace)
		}
		return err
	})
}

// With mutual TLS, requests are reported on the connection of the configuration, and each
// kedify-proxy may report only objects of the namespaces of its certificate.
func TestKedifyProxyReportsItsOwnNamespaces(t *testing.T) {
	a := newAuthority(t, "authority")
	s := newStack(t, requireNamespaces(a))
	for _, namespace := range []string{"blue", "red"} {
		s.object(namespace)
		s.endpoint(namespace, says(t, namespace))
	}
	s.startEnvoy(a.bootstrapOf([]string{"blue"}))
	s.connected()
	s.envoy.Wait("reports", func() error {
		if n := s.total("interceptor_load_reports_total"); n < 3 {
			return fmt.Errorf("%v of them", n)
		}
		return nil
	})
	client := newClient(t, &http.Transport{})
	for range 20 {
		if code, text, err := ask(client, "http", s.o.KedifyProxy.Port, http.MethodGet, nil); err != nil || code != http.StatusOK {
			t.Fatal(code, text, err)
		}
	}
	s.waitReported("blue", 20, "red")
	if n := s.envoy.Stat(handshakes); n != 1 {
		t.Errorf("it has made %d connections to the interceptor; want one for both streams", n)
	}

	certificate := a.sign("kedify-proxy", ecdsaKey(t), "blue")
	c, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", s.o.XDSPort), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: a.pool(), Certificates: []tls.Certificate{*certificate},
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	stream, err := loadstatsv3.NewLoadReportingServiceClient(c).StreamLoadStats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report := &loadstatsv3.LoadStatsRequest{Node: &corev3.Node{Id: envoy.NodeID}}
	for _, namespace := range []string{"blue", "red"} {
		report.ClusterStats = append(report.ClusterStats, &endpointv3.ClusterStats{
			ClusterName: namespace + "/app/app", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{TotalIssuedRequests: 5}},
		})
	}
	if err := stream.Send(report); err != nil {
		t.Fatal(err)
	}
	s.waitReported("blue", 25, "red")
}
