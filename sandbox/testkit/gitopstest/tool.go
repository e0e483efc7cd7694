// Package gitopstest has stand-ins for GitOps tools: they apply what is in git every
// second, in the ways in which the tools do.
package gitopstest

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// interval is how often a tool applies.
const interval = time.Second

// ClientSide are kubectl's flags for applying as Argo CD does by default.
var ClientSide = []string{"apply"}

// ServerSide returns kubectl's flags for applying server-side as a field manager, which
// takes over fields in conflict.
func ServerSide(fieldManager string) []string {
	return []string{"apply", "--server-side", "--force-conflicts", "--field-manager=" + fieldManager}
}

// Part is a part of what is in git.
type Part struct {
	// Flags are kubectl's command and flags to apply the part.
	Flags []string
	// Manifest returns what to apply now; "" for nothing.
	Manifest func(context.Context) (string, error)
}

// Fixed is a Part that never changes.
func Fixed(flags []string, manifest string) Part {
	return Part{flags, func(context.Context) (string, error) { return manifest, nil }}
}

// Changing is a manifest in git that changes.
type Changing struct {
	mu       sync.Mutex
	manifest string
}

// Set puts a manifest into git.
func (c *Changing) Set(manifest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manifest = manifest
}

// Part returns a Part whose manifest is the one in git at each time.
func (c *Changing) Part(flags []string) Part {
	return Part{flags, func(context.Context) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.manifest, nil
	}}
}

// Tool is a running stand-in.
type Tool struct {
	rounds  atomic.Int64
	stop    context.CancelFunc
	stopped chan struct{}
}

// Start applies the parts one after the other in a namespace, every second until the
// tool is stopped or the test ends. A part that cannot be applied fails the test.
func Start(t testing.TB, n *e2etest.Namespace, parts ...Part) *Tool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tool := &Tool{stop: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(tool.stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			for _, part := range parts {
				part.apply(ctx, t, n)
			}
			tool.rounds.Add(1)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	t.Cleanup(tool.Stop)
	return tool
}

// Stop stops the tool, and returns when it has ended.
func (tool *Tool) Stop() {
	tool.stop()
	<-tool.stopped
}

// Rounds is how often all parts were applied.
func (tool *Tool) Rounds() int { return int(tool.rounds.Load()) }

// AwaitRounds waits until all parts have been applied count times more.
func (tool *Tool) AwaitRounds(t testing.TB, count int) {
	t.Helper()
	before := tool.Rounds()
	e2etest.Eventually(t, e2etest.Patience, "git is applied", func(context.Context) error {
		if tool.Rounds() < before+count {
			return errors.New("not yet")
		}
		return nil
	})
}

// Apply applies a part once. If that fails, so does the test.
func (p Part) Apply(t testing.TB, n *e2etest.Namespace) { p.apply(t.Context(), t, n) }

// apply reports errors, except for those that come of the end of ctx.
func (p Part) apply(ctx context.Context, t testing.TB, n *e2etest.Namespace) {
	manifest, err := p.Manifest(ctx)
	if err != nil && ctx.Err() == nil {
		t.Errorf("what is in git: %v", err)
	}
	if manifest == "" || err != nil {
		return
	}
	cmd := exec.CommandContext(ctx, "kubectl", append(p.Flags[:len(p.Flags):len(p.Flags)], "--namespace", n.Name, "-f", "-")...)
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
		t.Errorf("kubectl %s: %v\n%s", strings.Join(p.Flags, " "), err, output)
	}
}
