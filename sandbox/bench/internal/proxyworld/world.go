// Package proxyworld is what programs of `make bench` measure proxies in: an API server
// with HTTPScaledObjects, the interceptor and Envoys that it programs, and clients and
// applications on a processor of their own.
package proxyworld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"

	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/loadgen"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// The applications have addresses of the node: an EndpointSlice may not have a
// loopback address.
var (
	StableAddress = netip.AddrPortFrom(cluster.NodeIP, 19001)
	CanaryAddress = netip.AddrPortFrom(cluster.NodeIP, 19002)
)

// LoadCommand is the subcommand that a program that uses this package needs. It is
// ServeLoad.
const LoadCommand = "load"

// ServeLoad runs the clients and applications until standard input ends, and returns the
// exit code.
func ServeLoad() int {
	err := loadgen.Serve(os.Stdin, os.Stdout, []loadgen.Application{
		{Address: StableAddress, Answer: "stable"},
		{Address: CanaryAddress, Answer: "canary"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		return 1
	}
	return 0
}

// Programs are the paths of what is measured.
type Programs struct {
	Interceptor, Envoy string
}

// World is the environment of all measurements.
type World struct {
	Programs
	Processors *Processors
	Dir        string // for configurations
	Objects    int    // HTTPScaledObjects that Grow has made
	Client     dynamic.Interface

	load        *Process
	loadIn      *json.Encoder
	loadOut     *json.Decoder
	loadAnswers io.Closer
}

// New prepares the sandbox that this process is in, with the CRD of HTTPScaledObjects in
// a file. The caller closes what it returns.
func New(ctx context.Context, programs Programs, crd string) (w *World, err error) {
	w = &World{Programs: programs}
	if w.Processors, err = newProcessors(); err != nil {
		return nil, err
	}
	if _, w.Client, err = gauge.Connect(ctx, crd); err != nil {
		return nil, err
	}
	if w.Dir, err = os.MkdirTemp("", "proxyworld-"); err != nil {
		return nil, err
	}
	if err := w.startLoad(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.Dir))
	}
	return w, nil
}

// StopNode stops what runs pods, which would process every object, too.
func (w *World) StopNode(ctx context.Context) error {
	for _, component := range []string{cluster.ControllerManager, cluster.Scheduler, cluster.Node} {
		if err := cluster.Component(ctx, "stop", component); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the clients and applications.
func (w *World) Close() {
	w.load.End()
	_ = w.loadAnswers.Close()
	_ = os.RemoveAll(w.Dir)
}

// startLoad starts the clients and applications, which run for all measurements: a
// proxy keeps its connections to them.
func (w *World) startLoad() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, LoadCommand)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	answers, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = theirs
	w.load, err = Launch(cmd, w.Processors.Load())
	_ = theirs.Close()
	if err != nil {
		_ = answers.Close()
		return err
	}
	w.loadIn, w.loadOut, w.loadAnswers = json.NewEncoder(in), json.NewDecoder(answers), answers
	return nil
}

// Run has the clients make a round.
func (w *World) Run(r loadgen.Round) (*loadgen.Result, error) {
	if err := w.loadIn.Encode(r); err != nil {
		return nil, err
	}
	var result loadgen.Result
	if err := w.loadOut.Decode(&result); err != nil {
		return nil, fmt.Errorf("the clients are gone: %w", err)
	}
	if result.Error != "" {
		return nil, errors.New(result.Error)
	}
	return &result, nil
}
