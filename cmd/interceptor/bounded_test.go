package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
)

// A client that holds connections to the admin or metrics port keeps no other from it,
// whether it has one address, many, or that of the others, as behind a sidecar.
func TestProbesAndPrometheusGetIn(t *testing.T) {
	for name, tt := range map[string]struct{ first, addresses, each, open int }{
		"one address":           {2, 1, 50, 4},
		"the address of probes": {1, 1, 50, 4},
		"many addresses":        {2, 10, 4, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(o *settings.Settings) { o.AdminConnections, o.AdminConnectionsPerAddress = 8, 4 })
			for at, path := range map[uint16]string{s.o.AdminPort: "/healthz", s.o.MetricsPort: "/metrics"} {
				var closed atomic.Int64
				for i := range tt.addresses {
					for range tt.each {
						c, err := dialFrom(tt.first+i, at)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { _ = c.Close() })
						go func() {
							// After a request the server waits two minutes for the next one.
							_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: interceptor\r\n\r\n")
							_, _ = io.Copy(io.Discard, c)
							closed.Add(1)
						}()
					}
				}
				eventually(t, fmt.Sprint(tt.open, " connections to port ", at, " are open"), &s.logged, func() bool {
					return closed.Load() == int64(tt.addresses*tt.each-tt.open)
				})
				client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
				response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", at, path))
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("%s: %s", path, response.Status)
				}
			}
		})
	}
}

// A client that holds connections to the xDS port keeps no kedify-proxy from it, whether it
// has one address, many, or that of the kedify-proxy.
func TestEnvoysGetIn(t *testing.T) {
	for name, tt := range map[string]struct{ first, addresses, each, open int }{
		"one address":               {2, 1, 50, 4},
		"the address of the others": {1, 1, 50, 4},
		"many addresses":            {2, 10, 4, 8},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, func(o *settings.Settings) { o.XDSConnections, o.XDSConnectionsPerAddress = 8, 4 })
			s.xds.Update(s.builder.Commit())
			var closed atomic.Int64
			for i := range tt.addresses {
				for range tt.each {
					c, err := dialFrom(tt.first+i, s.o.XDSPort)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = c.Close() })
					go func() {
						// The preface of HTTP/2, and an empty SETTINGS frame.
						_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
						_, _ = io.Copy(io.Discard, c)
						closed.Add(1)
					}()
				}
			}
			eventually(t, fmt.Sprint(tt.open, " connections are open"), &s.logged, func() bool {
				return closed.Load() == int64(tt.addresses*tt.each-tt.open)
			})
			c, err := grpc.NewClient(fmt.Sprint("127.0.0.1:", s.o.XDSPort), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ads, err := discoveryv3.NewAggregatedDiscoveryServiceClient(c).DeltaAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := ads.Send(&discoveryv3.DeltaDiscoveryRequest{
				Node: &corev3.Node{Id: envoy.NodeID}, TypeUrl: "type.googleapis.com/envoy.config.listener.v3.Listener",
			}); err != nil {
				t.Fatal(err)
			}
			if r, err := ads.Recv(); err != nil || len(r.GetResources()) == 0 {
				t.Errorf("an Envoy gets %v, %v; expected listeners", r, err)
			}
		})
	}
}

// dialFrom connects from 127.0.0.<last>.
func dialFrom(last int, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(last))}}
	return d.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
}
