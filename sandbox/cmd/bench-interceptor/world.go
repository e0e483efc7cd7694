package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/gauge"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/loadgen"
)

// The applications have addresses of the node: an EndpointSlice may not have a
// loopback address.
var (
	stableAddress = netip.AddrPortFrom(cluster.NodeIP, 19001)
	canaryAddress = netip.AddrPortFrom(cluster.NodeIP, 19002)
)

// loadCommand is the subcommand that runs the clients and applications.
const loadCommand = "load"

func serveLoad() error {
	return loadgen.Serve(os.Stdin, os.Stdout, []loadgen.Application{
		{Address: stableAddress, Answer: "stable"},
		{Address: canaryAddress, Answer: "canary"},
	})
}

// world is the environment of all measurements.
type world struct {
	*options
	client     dynamic.Interface
	processors *processors
	dir        string // for configurations
	objects    int    // HTTPScaledObjects that exist

	load        *process
	loadIn      *json.Encoder
	loadOut     *json.Decoder
	loadAnswers io.Closer
}

func newWorld(ctx context.Context, o *options) (w *world, err error) {
	w = &world{options: o}
	if w.processors, err = newProcessors(); err != nil {
		return nil, err
	}
	if _, w.client, err = gauge.Connect(ctx, o.crd); err != nil {
		return nil, err
	}
	// These components are not needed here, and each would process every object.
	for _, component := range []string{cluster.ControllerManager, cluster.Scheduler, cluster.Node} {
		if err := cluster.Component(ctx, "stop", component); err != nil {
			return nil, err
		}
	}
	if w.dir, err = os.MkdirTemp("", "bench-interceptor-"); err != nil {
		return nil, err
	}
	if err := w.startLoad(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(w.dir))
	}
	return w, nil
}

func (w *world) close() {
	w.load.end()
	_ = w.loadAnswers.Close()
	_ = os.RemoveAll(w.dir)
}

// startLoad starts the clients and applications, which run for all measurements: a
// proxy keeps its connections to them.
func (w *world) startLoad() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, loadCommand)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	answers, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = theirs
	w.load, err = launch(cmd, w.processors.load())
	_ = theirs.Close()
	if err != nil {
		_ = answers.Close()
		return err
	}
	w.loadIn, w.loadOut, w.loadAnswers = json.NewEncoder(in), json.NewDecoder(answers), answers
	return nil
}

// run has the clients make a round.
func (w *world) run(r loadgen.Round) (*loadgen.Result, error) {
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

// process is a program that is measured.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   *tail
}

// launch starts a program. The end of its log is kept to explain a failure.
func launch(cmd *exec.Cmd, on unix.CPUSet) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{}), log: &tail{}}
	cmd.Stderr = p.log
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	}
	if err := start(cmd, on); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // a wait for the program's answer reports its end
		close(p.ended)
	}()
	return p, nil
}

// end ends a program; nil stands for a program that was not started.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// pids returns the IDs of the process and of those that it has started.
func (p *process) pids() ([]int, error) {
	more, err := gauge.Children(p.cmd.Process.Pid)
	return append([]int{p.cmd.Process.Pid}, more...), err
}

// resident returns the resident memory of all of pids together, in MB.
func (p *process) resident() (float64, error) { return p.sum(gauge.Resident) }

// peak returns the sum of the peak resident memory of each of pids, in MB.
func (p *process) peak() (float64, error) { return p.sum(gauge.PeakResident) }

func (p *process) sum(memory func(pid int) (float64, error)) (float64, error) {
	pids, err := p.pids()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, pid := range pids {
		mb, err := memory(pid)
		if err != nil {
			return 0, err
		}
		sum += mb
	}
	return sum, nil
}

// await waits until a page is answered with 200, and fails if the program ends
// before.
func (p *process) await(ctx context.Context, every time.Duration, url, host string) error {
	return p.awaitThat(ctx, every, url+" is answered", func() (bool, error) {
		code, _, err := get(ctx, http.DefaultClient, url, host)
		return err == nil && code == http.StatusOK, nil
	})
}

func (p *process) awaitThat(ctx context.Context, every time.Duration, what string, condition func() (bool, error)) error {
	program := filepath.Base(p.cmd.Path)
	err := gauge.Poll(ctx, every, what, func() (bool, error) {
		select {
		case <-p.ended:
			return false, errors.New("it ended")
		default:
			return condition()
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, p.log)
	}
	return nil
}

// get requests a page once.
func get(ctx context.Context, client *http.Client, url, host string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// metric returns a metric without labels, or the sum of one that has them, from
// a page of metrics.
func metric(page, name string) (float64, bool) {
	sum, found := 0.0, false
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		series := lines.Text()
		rest, ok := strings.CutPrefix(series, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		if number, err := strconv.ParseFloat(series[strings.LastIndexByte(series, ' ')+1:], 64); err == nil {
			sum, found = sum+number, true
		}
	}
	return sum, found
}
