package traffictest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/loadclient"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
)

// StartFullLoad sends requests for a host on 32 connections at a time, as fast as
// they are answered.
func StartFullLoad(t testing.TB, p Proxy, host string) *Load {
	t.Helper()
	return startAt(t, p, "/", traffic.Options{Host: host, Connections: 32, Backend: pageColour})
}

// ClientLoad is a load by a third-party client, such as wrk.
type ClientLoad struct {
	t      testing.TB
	proxy  Proxy
	host   string
	client loadclient.Client
	stop   func()
	ended  chan struct{}

	mu     sync.Mutex
	runs   int
	counts loadclient.Counts
}

// clientRun is how long one run of a client takes. Clients report the outcome of their
// requests only at the end of a run, so a load consists of as many runs as it takes.
const clientRun = 5 * time.Second

// StartClient sends GET requests for a host with a client, as fast as they are
// answered, until Finish. If the client is not installed, the test is skipped, or fails
// if the environment variable CI is set.
func StartClient(t testing.TB, p Proxy, host string, client loadclient.Client) *ClientLoad {
	t.Helper()
	stopped := make(chan struct{})
	l := &ClientLoad{t: t, proxy: p, host: host, client: client, stop: sync.OnceFunc(func() { close(stopped) }), ended: make(chan struct{})}
	l.run() // the client is installed, and the proxy answers it
	go func() {
		defer close(l.ended)
		for {
			select {
			case <-stopped:
				return
			default:
				l.run()
			}
		}
	}()
	t.Cleanup(func() {
		l.stop()
		<-l.ended
	})
	return l
}

// run runs the client once. If requests fail, the test fails and shows the client's
// output.
func (l *ClientLoad) run() {
	counts, output, err := l.client.Do(context.WithoutCancel(l.t.Context()), loadclient.Run{
		Target: l.proxy.Address, Host: l.host, Path: l.proxy.Prefix + "/", Duration: clientRun,
	})
	switch {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" && l.Runs() == 0:
		l.t.Skip(err)
	case err != nil:
		l.t.Errorf("%s: %v\n%s", l.proxy.Name, err, output)
		l.stop()
	case counts.Failed > 0:
		l.t.Errorf("%s: %d of %d requests failed; the client says:\n%s", l.proxy.Name, counts.Failed, counts.Requests, output)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs++
	l.counts.Requests += counts.Requests
	l.counts.Failed += counts.Failed
}

// Runs returns how many runs have ended.
func (l *ClientLoad) Runs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs
}

// Finish ends the load when the run under way is over, and fails the test unless it
// sent requests. Requests that failed have failed the test already.
func (l *ClientLoad) Finish() {
	l.t.Helper()
	l.stop()
	select {
	case <-l.ended:
	case <-time.After(e2etest.Patience):
		l.t.Fatalf("%s does not end", l.client.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts.Requests == 0 {
		l.t.Errorf("%s sent no requests", l.client.Name)
	}
	l.t.Logf("%s: %s sent %d requests in %d runs, %d failed", l.proxy.Name, l.client.Name, l.counts.Requests, l.runs, l.counts.Failed)
}
