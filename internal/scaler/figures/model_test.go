package figures_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/figures"
)

// A model is a cluster in which requests arrive steadily at whatever proxies run, with
// interceptors and Envoys that report as the real ones do, and one scaler.
type model struct {
	*clocked
	t            *testing.T
	random       *rand.Rand
	interceptors []*modelInterceptor
	envoys       []*modelEnvoy
	ids          int
	events       []string
	at           time.Duration
	owed         float64 // requests that are due
	next         int     // the proxy that the next request goes to
	underWay     int     // at each proxy, always
}

type modelInterceptor struct {
	address     string
	downUntil   time.Duration
	counts      map[string]*modelSource // by ID
	own         string
	linkedAgain time.Duration // when the scaler connects
	linked      bool
	nextMessage time.Duration
}

type modelSource struct {
	address  string
	requests int
	reported bool
	ended    bool
}

type modelEnvoy struct {
	address    string
	downUntil  time.Duration
	pending    int // requests since its last report
	id         string
	to         *modelInterceptor // nil while it has no stream
	nextTry    time.Duration
	nextReport time.Duration
}

func newModel(t *testing.T, seed uint64, interceptors, envoys int) *model {
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), clocked: &clocked{time: time.Unix(1e9, 0)}, underWay: 3}
	for range interceptors {
		m.addInterceptor()
	}
	for range envoys {
		m.addEnvoy()
	}
	m.run(2*time.Minute, 100, nil) // before the scaler starts
	m.Figures = figures.New(func() time.Time { return m.time })
	m.endpoints()
	return m
}

func (m *model) newID() string {
	m.ids++
	return fmt.Sprint("id-", m.ids)
}

func (m *model) addInterceptor() *modelInterceptor {
	i := &modelInterceptor{address: fmt.Sprint("interceptor-", m.newID()), linkedAgain: m.at + 200*time.Millisecond}
	m.boot(i)
	m.interceptors = append(m.interceptors, i)
	return i
}

func (m *model) boot(i *modelInterceptor) {
	i.own = m.newID()
	i.counts = map[string]*modelSource{i.own: {reported: true}}
}

func (m *model) addEnvoy() *modelEnvoy {
	e := &modelEnvoy{address: fmt.Sprint("envoy-", m.newID()), nextTry: m.at}
	m.envoys = append(m.envoys, e)
	return e
}

// endpoints tells the scaler what is in the EndpointSlices.
func (m *model) endpoints() {
	var interceptors, envoys []string
	for _, i := range m.interceptors {
		interceptors = append(interceptors, i.address)
	}
	for _, e := range m.envoys {
		envoys = append(envoys, e.address)
	}
	m.expect(interceptors, envoys...)
}

func (m *model) unlink(i *modelInterceptor, d time.Duration) {
	if i.linked {
		m.Disconnected(i.address)
	}
	i.linked, i.linkedAgain = false, m.at+d
}

// stop ends an interceptor's process: all its streams break.
func (m *model) stop(i *modelInterceptor, d time.Duration) {
	i.downUntil = m.at + d
	m.unlink(i, d+300*time.Millisecond)
	for _, e := range m.envoys {
		if e.to == i {
			m.breakStream(e)
		}
	}
	m.boot(i)
}

func (m *model) breakStream(e *modelEnvoy) {
	if e.to != nil {
		if s := e.to.counts[e.id]; s != nil {
			s.ended = true
		}
		e.to, e.nextTry = nil, m.at+5*time.Second
	}
}

const step = 50 * time.Millisecond

// run lets time pass with so many requests a second, and calls check after each step.
func (m *model) run(d time.Duration, rate float64, check func()) {
	for end := m.at + d; m.at < end; {
		m.at += step
		m.pass(step)
		m.arrive(rate * step.Seconds())
		for _, e := range m.envoys {
			m.report(e)
		}
		for _, i := range m.interceptors {
			m.tell(i)
		}
		if check != nil {
			check()
		}
	}
}

// arrive gives the requests to the proxies that are up, one after the other.
func (m *model) arrive(n float64) {
	var counters []*int
	for _, i := range m.interceptors {
		if i.downUntil <= m.at {
			counters = append(counters, &i.counts[i.own].requests)
		}
	}
	for _, e := range m.envoys {
		if e.downUntil <= m.at {
			counters = append(counters, &e.pending)
		}
	}
	for m.owed += n; m.owed >= 1; m.owed-- {
		*counters[m.next%len(counters)]++
		m.next++
	}
}

// report lets an Envoy report each second. It loses what it has counted when it tries to
// reach an interceptor that is not there.
func (m *model) report(e *modelEnvoy) {
	if e.downUntil > m.at {
		return
	}
	if e.to == nil && m.at >= e.nextTry {
		if to := m.interceptors[m.random.IntN(len(m.interceptors))]; to.downUntil > m.at {
			e.pending, e.nextTry = 0, m.at+5*time.Second
		} else {
			e.to, e.id, e.nextReport = to, m.newID(), m.at
			to.counts[e.id] = &modelSource{address: e.address}
		}
	}
	if e.to != nil && m.at >= e.nextReport {
		s := e.to.counts[e.id]
		s.requests += e.pending
		s.reported = true
		e.pending, e.nextReport = 0, m.at+time.Second
	}
}

// tell sends the scaler the first message of a stream, and one each second after it.
func (m *model) tell(i *modelInterceptor) {
	if m.Figures == nil || i.downUntil > m.at || m.at < i.linkedAgain || i.linked && m.at < i.nextMessage {
		return
	}
	var message loadreport.Message
	for _, id := range slices.Sorted(maps.Keys(i.counts)) {
		s := i.counts[id]
		if !i.linked && s.ended {
			delete(i.counts, id)
		} else if !i.linked || s.reported || s.ended || id == i.own {
			told := source(id, s.address, s.requests, m.underWay, 0)
			told.Ended = s.ended
			message.Sources = append(message.Sources, told)
		}
		if s.reported = false; s.ended {
			delete(i.counts, id)
		}
	}
	m.Apply(i.address, message)
	i.linked, i.nextMessage = true, m.at+time.Second
}

// An event is something that happens to one of the proxies. All of them leave as many
// requests as there were.
var events = map[string]func(*model){
	"the scaler's stream breaks": func(m *model) {
		m.unlink(m.anInterceptor(), time.Duration(1+m.random.IntN(40))*100*time.Millisecond)
	},
	"an Envoy's stream ends": func(m *model) { m.breakStream(m.anEnvoy()) },
	"an interceptor restarts": func(m *model) {
		m.stop(m.anInterceptor(), time.Duration(1+m.random.IntN(8))*time.Second)
	},
	"an Envoy restarts": func(m *model) {
		e := m.anEnvoy()
		m.breakStream(e)
		e.pending, e.downUntil = 0, m.at+time.Duration(1+m.random.IntN(3))*time.Second
		e.nextTry = e.downUntil
	},
	"an interceptor is replaced": func(m *model) {
		old := m.anInterceptor()
		m.stop(old, time.Hour)
		m.interceptors = slices.DeleteFunc(m.interceptors, func(i *modelInterceptor) bool { return i == old })
		m.addInterceptor()
		m.endpoints()
	},
	"an Envoy is replaced": func(m *model) {
		old := m.anEnvoy()
		m.breakStream(old)
		m.envoys = slices.DeleteFunc(m.envoys, func(e *modelEnvoy) bool { return e == old })
		m.addEnvoy()
		m.endpoints()
	},
}

func (m *model) anInterceptor() *modelInterceptor {
	return m.interceptors[m.random.IntN(len(m.interceptors))]
}

func (m *model) anEnvoy() *modelEnvoy { return m.envoys[m.random.IntN(len(m.envoys))] }

// With a steady load, the rate is true over anything that happens to a proxy: within 5 %
// when it is one thing in a window, and within 20 % always.
func TestRateIsTrueWhateverHappens(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{10, 1000} {
		for name := range events {
			t.Run(fmt.Sprintf("%v a second, %s", rate, name), func(t *testing.T) {
				checkRate(t, rate, 0.05, []string{name}, 70*time.Second)
			})
		}
		t.Run(fmt.Sprintf("%v a second, much at a time", rate), func(t *testing.T) {
			checkRate(t, rate, 0.2, slices.Sorted(maps.Keys(events)), 8*time.Second)
		})
	}
}

func checkRate(t *testing.T, rate, within float64, names []string, pause time.Duration) {
	for seed := range uint64(8) {
		m := newModel(t, seed, 2, 3)
		m.run(5*time.Second, rate, nil) // what arrived before may be reported now
		lowest, highest := math.Inf(1), 0.0
		check := func() {
			got, err := m.Rate(app, minute)
			if err != nil {
				t.Fatalf("seed %d, after %q: %v", seed, m.events, err)
			}
			lowest, highest = min(lowest, got), max(highest, got)
			if math.Abs(got-rate) > within*rate {
				t.Fatalf("seed %d, at %v, after %q: the rate is %.1f, want %v", seed, m.at, m.events, got, rate)
			}
		}
		concurrency := func() {
			// One that was replaced may not have ended yet, or the new one may not be known.
			all := int64(m.underWay * (len(m.interceptors) + len(m.envoys)))
			if active, err := m.Concurrency(app); err != nil || active > all+int64(m.underWay) || active < all-2*int64(m.underWay) {
				t.Fatalf("seed %d, at %v, after %q: %d are under way (%v), want %d", seed, m.at, m.events, active, err, all)
			}
		}
		m.run(70*time.Second, rate, func() { check(); concurrency() })
		for range 10 {
			name := names[m.random.IntN(len(names))]
			m.events = append(m.events, fmt.Sprint(m.at, ": ", name))
			events[name](m)
			m.run(pause, rate, func() { check(); concurrency() })
		}
		if testing.Verbose() {
			t.Logf("seed %d: %.1f to %.1f of %v", seed, lowest, highest, rate)
		}
	}
}
