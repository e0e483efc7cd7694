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

// unusedFor is how long a call is remembered if the controller does not repeat it. The
// controller looks at each Rollout every 15 minutes, so by then the Rollout is gone.
const unusedFor = time.Hour

// memory has the last calls of each Rollout that have found the routes as they should
// be. The controller makes the same calls at each reconcile: a call with the same question,
// for which the watch still gives the same answers, has the same outcome as the last time,
// and is answered without decoding a route or deciding.
type memory struct {
	mu    sync.Mutex
	calls map[k8stypes.NamespacedName]map[string]*remembered // by the call's name
	swept time.Time
}

// remembered is one call that has succeeded without a write.
type remembered struct {
	question question
	// unchanged are functions that tell whether a read would give the same again.
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

// questionOf returns the question of a call with these arguments, which are compared as JSON.
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

// remembering makes a call, unless its outcome is remembered. The caller has locked the
// Rollout.
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

// find returns what is remembered of a question, if its outcome would be the same.
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

// note remembers a call that has succeeded and can be answered from memory. After any other
// call it forgets all calls of the Rollout: that call may have changed something that notes
// do not record.
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

// sweep forgets, once in unusedFor, the Rollouts without a call in that time.
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

// notes record what one call reads and does, so that the next equal call can be answered
// from memory. They are for one goroutine.
type notes struct {
	unchanged []func() bool
	effects   []func()
	// once is true if the next equal call must not be answered from memory.
	once bool
}

// read records a read; unchanged tells whether it would give the same again.
func (n *notes) read(unchanged func() bool) { n.unchanged = append(n.unchanged, unchanged) }

// do runs effect now, and again for each equal call that is answered from memory.
func (n *notes) do(effect func()) {
	n.effects = append(n.effects, effect)
	effect()
}

// doNotRemember keeps the call from being remembered: it writes, or depends on something
// whose changes notes cannot detect.
func (n *notes) doNotRemember() { n.once = true }
