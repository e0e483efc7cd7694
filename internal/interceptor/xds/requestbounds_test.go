package xds

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// unfinished begins a request of maxRequestBytes, of which it sends nearly all, on a connection
// from an address.
func unfinished(t *testing.T, address, to string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: d.DialContext, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	body, send := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+to+discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	go func() {
		response, err := transport.RoundTrip(r)
		_ = send.CloseWithError(io.ErrClosedPipe)
		if err == nil {
			_ = response.Body.Close()
		}
	}()
	head := make([]byte, 5)
	binary.BigEndian.PutUint32(head[1:], maxRequestBytes)
	_, _ = send.Write(head)
	_, _ = send.Write(make([]byte, maxRequestBytes-1)) // fails if the connection is closed
}

// The clients of one address have two of the largest requests under way at most, whatever
// they begin. An Envoy of another address is served.
func TestRequestsThatAreNotFinished(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.service("app", "10.0.0.1:80")
	w.object("app")
	w.commit()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, w.server, l)
	for range 10 {
		unfinished(t, "127.0.0.2", l.Addr().String())
	}
	eventually(t, "the other connections being closed", func() bool {
		c := &w.server.connections
		c.mu.Lock()
		defer c.mu.Unlock()
		sum := 0
		for _, conn := range c.open {
			sum += conn.unhandled
		}
		return len(c.open) <= 2 && sum <= maxUnhandledBytes
	})
	e := newFake(t, clientFrom(t, "127.0.0.3", l.Addr().(*net.TCPAddr).Port), false)
	e.run()
	e.has(w)
}

// What an Envoy has sent is counted only until it is handled: however much that is over
// time, its connection stays.
func TestHandledRequestsAreNotCounted(t *testing.T) {
	w := newWorld(t, envoy.Options{})
	w.commit()
	client := clientFrom(t, "127.0.0.2", w.listen())
	s, err := client.DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const each = 4 << 20
	long := strings.Repeat("a", each) // the server drops a name as long as that
	for sent := 0; sent < 2*maxUnhandledBytes; sent += each {
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: theNode, TypeUrl: typeURLs[eds], ResourceNamesSubscribe: []string{long}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request being handled", func() bool {
			c := &w.server.connections
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, conn := range c.open {
				return conn.unhandled < each/16
			}
			return false
		})
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[lds]}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Errorf("the stream ended: %v", err)
	}
}

// A request that would take far more memory than it has bytes is not decoded: its stream
// ends.
func TestRequestsThatGrowWhenDecoded(t *testing.T) {
	empty := make([]*structpb.Value, 1<<20)
	for i := range empty {
		empty[i] = &structpb.Value{}
	}
	for what, r := range map[string]*discoveryv3.DeltaDiscoveryRequest{
		"a node of small values": {TypeUrl: typeURLs[lds], Node: &corev3.Node{Id: envoy.NodeID, Metadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"all": structpb.NewListValue(&structpb.ListValue{Values: empty})},
		}}},
		"a refusal of empty details": {TypeUrl: typeURLs[lds], Node: theNode, ErrorDetail: &statuspb.Status{Details: slices.Repeat([]*anypb.Any{{}}, 1<<20)}},
		"empty names":                {TypeUrl: typeURLs[lds], Node: theNode, ResourceNamesSubscribe: make([]string, 1<<20)},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, envoy.Options{})
			w.commit()
			s, err := w.dialer().DeltaAggregatedResources(t.Context())
			if err == nil {
				_ = s.Send(r) // Recv has the error
				_, err = s.Recv()
			}
			if status.Code(err) != codes.Internal {
				t.Errorf("%v; expected Internal", err)
			}
		})
	}
	enough := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURLs[eds], ResourceNamesSubscribe: make([]string, maxRequestFields-10)}
	encoded, err := newCodec().Marshal(enough)
	if err == nil {
		err = newCodec().Unmarshal(mem.BufferSlice{encoded.MaterializeToBuffer(mem.DefaultBufferPool())}, &discoveryv3.DeltaDiscoveryRequest{})
	}
	if err != nil {
		t.Errorf("a request with %d names: %v", len(enough.ResourceNamesSubscribe), err)
	}
}
