// Package proxyworld is what programs of `make bench` measure proxies in: an API server
// with HTTPScaledObjects, the interceptor and Envoys that it programs, and clients and
// applications on a processor of their own.
package proxyworld

import (
	"context"
	"net/netip"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// The applications have addresses of the node: an EndpointSlice may not have a
// loopback address.
var (
	StableAddress = netip.AddrPortFrom(cluster.NodeIP, 19001)
	CanaryAddress = netip.AddrPortFrom(cluster.NodeIP, 19002)
)

// Programs are the paths of what is measured.
type Programs struct {
	Interceptor, Envoy string
}

// World is the environment of all measurements.
type World struct {
	Programs
	*gauge.Cluster
	Stable, Canary *Application
	Objects        int // HTTPScaledObjects that Grow has made

	processors []int
}

// New prepares the sandbox that this process is in, with the CRD of HTTPScaledObjects in
// a file.
func New(ctx context.Context, programs Programs, crd string) (w *World, err error) {
	w = &World{Programs: programs}
	if w.processors, err = gauge.Processors(); err != nil {
		return nil, err
	}
	if w.Cluster, err = gauge.Connect(ctx, crd); err != nil {
		return nil, err
	}
	if w.Stable, err = listen("stable", StableAddress); err != nil {
		return nil, err
	}
	w.Canary, err = listen("canary", CanaryAddress)
	return w, err
}

// StopNode stops what runs pods, which would process every object, too.
func (w *World) StopNode(ctx context.Context) error {
	return gauge.Stop(ctx, cluster.ControllerManager, cluster.Scheduler, cluster.Node)
}

// First returns the first n processors, which are a proxy's.
func (w *World) First(n int) []int { return w.processors[:n] }

// KeepFree moves all processes, this one included, off the first n processors, if others are
// left. A proxy that is started meanwhile has them to itself. The caller calls back.
func (w *World) KeepFree(n int) (back func(), err error) {
	err = gauge.Move(w.processors[min(n, len(w.processors)-1):])
	return func() { _ = gauge.Move(w.processors) }, err
}
