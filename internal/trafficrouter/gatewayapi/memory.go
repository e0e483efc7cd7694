package gatewayapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/selfheal"
)

// unusedFor is how long a call is remembered that the controller does not make again. It
// looks at each Rollout every 15 minutes: the Rollout is gone.
const unusedFor = time.Hour

// memory has the last calls of each Rollout that have found the routes as they should
// be. The controller makes the same calls at each reconcile: one whose question and whose
// answers from the watch are those of the last time has the outcome of the last time, and
// neither decodes a route nor decides.
type memory struct {
	mu    sync.Mutex
	calls map[k8stypes.NamespacedName]map[string]*remembered // by the call's name
	swept time.Time
}

// remembered is one call that has succeeded without a write.
type remembered struct {
	question question
	// unchanged tell whether all that was read would be read again.
	unchanged []func() bool
	// effects are what the call has done in this process.
	effects []func()
	used    time.Time
}

// question is all that the outcome of a call depends on, besides what it reads.
type question struct {
	call        string
	fingerprint selfheal.Fingerprint
	// configuration is the Rollout's for the plugin, as it is written.
	configuration  string
	stable, canary string
	pingPong       bool
	max            int32
	managedRoutes  string
	mirrorPercent  bool
	// arguments are those of the call.
	arguments string
}

// questionOf returns the question of a call with these arguments, which JSON tells apart.
func (r *Router) questionOf(ro *v1alpha1.Rollout, call string, arguments ...any) question {
	rollout := RolloutOf(ro, nil)
	q := question{
		call: call, fingerprint: selfheal.FingerprintOf(ro),
		stable: rollout.Stable, canary: rollout.Canary, pingPong: rollout.PingPong, max: rollout.Max,
		managedRoutes: strings.Join(rollout.ManagedRoutes, "\n"),
		mirrorPercent: r.mirroring.knowsPercent(),
	}
	if Uses(ro, r.options.PluginName) {
		q.configuration = string(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[r.options.PluginName])
	}
	if len(arguments) > 0 {
		text, err := json.Marshal(arguments)
		if err != nil {
			panic(fmt.Sprintf("arguments of %s: %v", call, err)) // they have come as data
		}
		q.arguments = string(text)
	}
	return q
}

// remembering makes a call, unless what it would find is known. The Rollout is locked.
func (r *Router) remembering(ro *v1alpha1.Rollout, q question, do func(*notes) error) error {
	if last := r.memory.find(nameOf(ro), q); last != nil {
		for _, effect := range last.effects {
			effect()
		}
		return nil
	}
	n := &notes{}
	err := do(n)
	r.memory.note(nameOf(ro), q, n, err)
	return err
}

// find returns what is remembered of a question, if it would be answered in the same way.
func (m *memory) find(rollout k8stypes.NamespacedName, q question) *remembered {
	m.mu.Lock()
	last := m.calls[rollout][q.call]
	if last != nil {
		last.used = time.Now()
	}
	m.mu.Unlock()
	if last == nil || last.question != q {
		return nil
	}
	for _, unchanged := range last.unchanged {
		if !unchanged() {
			return nil
		}
	}
	return last
}

// note remembers a call that has succeeded and may be answered so again. After any other,
// nothing of its Rollout is remembered: it may have changed what notes do not tell of.
func (m *memory) note(rollout k8stypes.NamespacedName, q question, n *notes, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || n.once {
		delete(m.calls, rollout)
		return
	}
	now := time.Now()
	if m.calls == nil {
		m.calls = map[k8stypes.NamespacedName]map[string]*remembered{}
	}
	if m.calls[rollout] == nil {
		m.calls[rollout] = map[string]*remembered{}
	}
	m.calls[rollout][q.call] = &remembered{question: q, unchanged: n.unchanged, effects: n.effects, used: now}
	m.sweep(now)
}

// sweep forgets, from time to time, the Rollouts of which no call was made for long.
func (m *memory) sweep(now time.Time) {
	if now.Sub(m.swept) < unusedFor {
		return
	}
	m.swept = now
	for rollout, calls := range m.calls {
		unused := true
		for _, call := range calls {
			unused = unused && now.Sub(call.used) >= unusedFor
		}
		if unused {
			delete(m.calls, rollout)
		}
	}
}

// notes are what one call reads and does, for the next one like it. It is for one
// goroutine.
type notes struct {
	unchanged []func() bool
	effects   []func()
	// once is true where the next call like it has to be made, whatever has been read.
	once bool
}

// read notes that something was read, and how to tell that it would be read again.
func (n *notes) read(unchanged func() bool) { n.unchanged = append(n.unchanged, unchanged) }

// do has something done by this call and by those that are answered from memory.
func (n *notes) do(effect func()) {
	n.effects = append(n.effects, effect)
	effect()
}

// happensOnce has the call not be remembered: it writes, or depends on something that
// notes cannot tell the change of.
func (n *notes) happensOnce() { n.once = true }
