package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// patience bounds each wait for something that has to come.
const patience = time.Minute

// quick is a pacing with short waits, for tests.
var quick = pacing{
	queued: 100, interval: time.Millisecond, leastWait: time.Millisecond, mostWait: 5 * time.Millisecond,
	refresh: time.Hour, logged: 100,
}

// apiServer keeps Events as an API server does.
type apiServer struct {
	url string

	mu      sync.Mutex
	events  map[string]*corev1.Event
	order   []string // objects, in the order of their Events
	patches []string
	asked   int
	faults  map[string]*apierrors.StatusError // by namespace, or "" for all
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{events: make(map[string]*corev1.Event), faults: make(map[string]*apierrors.StatusError)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *apiServer) setFault(fault *apierrors.StatusError) { s.setFaultIn("", fault) }

// setFaultIn sets the fault of one namespace.
func (s *apiServer) setFaultIn(namespace string, fault *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[namespace] = fault
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status *apierrors.StatusError) {
		status.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(status.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(status.ErrStatus)
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	for _, in := range []string{"", namespace} {
		if s.faults[in] != nil {
			refuse(s.faults[in])
			return
		}
	}
	var event corev1.Event
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		refuse(apierrors.NewBadRequest(err.Error()))
		return
	}
	switch r.Method {
	case http.MethodPost:
		if s.events[event.Name] != nil {
			refuse(apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name))
			return
		}
		s.events[event.Name] = &event
		s.order = append(s.order, event.InvolvedObject.Name)
		w.WriteHeader(http.StatusCreated)
	case http.MethodPatch:
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		s.patches = append(s.patches, name)
		s.events[name].LastTimestamp = event.LastTimestamp
	}
	_ = json.NewEncoder(w).Encode(event)
}

func (s *apiServer) count() (events, patches, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events), len(s.patches), s.asked
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func newTestRecorder(t *testing.T, s *apiServer, p pacing) (*Recorder, *logged) {
	t.Helper()
	log := &logged{}
	r, err := newRecorder(&rest.Config{Host: s.url, QPS: -1}, slog.New(slog.NewTextHandler(log, nil)), p)
	if err != nil {
		t.Fatal(err)
	}
	return r, log
}

// run runs a Recorder until the test ends.
func run(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		end()
		select {
		case <-over:
		case <-time.After(patience):
			t.Error("Run does not return")
		}
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func problem(name string) routes.Problem {
	return routes.Problem{
		Object: types.NamespacedName{Namespace: "demo", Name: name}, UID: types.UID("uid-" + name),
		Reason: routes.InvalidHost, Field: "spec.hosts[0]", Message: `spec.hosts[0]: "-" is no host`,
	}
}

func opened(problems ...routes.Problem) routes.Changes { return routes.Changes{Opened: problems} }

func TestAProblemIsAWarningEvent(t *testing.T) {
	s := newAPIServer(t)
	r, log := newTestRecorder(t, s, quick)
	run(t, r)
	r.Update(nil, opened(problem("a")))
	eventually(t, "an Event", func() bool { n, _, _ := s.count(); return n == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events[nameOf(problem("a"))]
	if e == nil {
		t.Fatalf("another name than that of the problem: %v", s.events)
	}
	want := corev1.ObjectReference{APIVersion: "http.keda.sh/v1alpha1", Kind: "HTTPScaledObject", Namespace: "demo", Name: "a", UID: "uid-a"}
	if e.InvolvedObject != want || e.Type != "Warning" || e.Reason != "InvalidHost" || e.Message != problem("a").Message || e.Count != 1 || e.LastTimestamp.IsZero() {
		t.Errorf("Event %+v", e)
	}
	if log.count("InvalidHost") != 1 {
		t.Errorf("log:\n%s", &log.text)
	}
}

// The metric counts all problems, also those that the table does not know, such as
// RefusedByEnvoy.
func TestAllProblemsAreCounted(t *testing.T) {
	r, _ := newTestRecorder(t, newAPIServer(t), quick)
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	counted := func(want ...string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, family := range families {
			for _, series := range family.GetMetric() {
				if family.GetName() == "interceptor_table_problems" {
					got = append(got, fmt.Sprint(series.GetLabel()[2].GetValue(), " ", series.GetLabel()[0].GetValue(), " ", series.GetGauge().GetValue()))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	other := problem("a")
	other.Field = "spec.hosts[1]"
	refused := problem("a")
	refused.Reason = "RefusedByEnvoy"
	r.Update(nil, opened(problem("a"), other, problem("b")))
	r.Update(nil, opened(refused))
	counted("InvalidHost a 2", "RefusedByEnvoy a 1", "InvalidHost b 1")
	r.Update(nil, routes.Changes{Resolved: []routes.Problem{other, problem("b")}})
	counted("InvalidHost a 1", "RefusedByEnvoy a 1")
}

func TestTwoInterceptorsMakeOneEvent(t *testing.T) {
	s := newAPIServer(t)
	for range 2 {
		r, _ := newTestRecorder(t, s, quick)
		run(t, r)
		r.Update(nil, opened(problem("a")))
	}
	eventually(t, "both have told", func() bool { n, patches, _ := s.count(); return n == 1 && patches == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.events[nameOf(problem("a"))]; e.Count != 1 {
		t.Errorf("count %d, want 1", e.Count)
	}
}

func TestAnotherProblemIsAnotherEvent(t *testing.T) {
	base := problem("a")
	names := map[string]string{nameOf(base): "the first"}
	for what, change := range map[string]func(*routes.Problem){
		"another object":  func(p *routes.Problem) { p.UID = "new" },
		"another reason":  func(p *routes.Problem) { p.Reason = routes.Repeated },
		"another message": func(p *routes.Problem) { p.Message += "!" },
	} {
		p := base
		change(&p)
		if like := names[nameOf(p)]; like != "" {
			t.Errorf("%s has the Event of %s", what, like)
		}
		names[nameOf(p)] = what
	}
	long := problem(strings.Repeat("a", 236) + ".b" + strings.Repeat("c", 15))
	if name := nameOf(long); len(name) > mostName || strings.Contains(name, "..") {
		t.Errorf("name of %d bytes: %s", len(name), name)
	}
}

// The answers of an API server if the permission is missing, if an admission webhook
// denies the request, and if a webhook is away.
var (
	noPermission = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New(
		`User "system:serviceaccount:keda:keda-add-ons-http-interceptor" cannot create resource "events" in API group "" in the namespace "demo"`))
	denied = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "a.0", errors.New(
		`admission webhook "policy.example.com" denied the request: no Events here`))
	noWebhook = apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": no endpoints available`))
)

func TestEventsOutliveAnAPIServerThatIsAway(t *testing.T) {
	for what, fault := range map[string]*apierrors.StatusError{
		"away":    apierrors.NewServiceUnavailable("down"),
		"refuses": noPermission,
	} {
		t.Run(what, func(t *testing.T) {
			s := newAPIServer(t)
			r, log := newTestRecorder(t, s, quick)
			s.setFault(fault)
			run(t, r)
			r.Update(nil, opened(problem("a"), problem("b")))
			eventually(t, "tried again and again", func() bool { _, _, asked := s.count(); return asked >= 5 })
			s.setFault(nil)
			eventually(t, "both told", func() bool { n, _, _ := s.count(); return n == 2 })
			if n := log.count("they wait"); n != 1 {
				t.Errorf("said %d times, want once:\n%s", n, &log.text)
			}
		})
	}
}

func in(namespace string, p routes.Problem) routes.Problem {
	p.Object.Namespace = namespace
	return p
}

// If no Event can be written in one namespace, Events of other namespaces are still
// written.
func TestOneNamespaceInTrouble(t *testing.T) {
	for what, tc := range map[string]struct {
		fault        *apierrors.StatusError
		begins, ends string
	}{
		"denied":     {denied, `lets no Event into this namespace: its Events wait, those of others are written" namespace=full`, `written again" namespace=full`},
		"webhook":    {noWebhook, "Events cannot be written now", "Events are written again"},
		"permission": {noPermission, "Grant create and patch on events", "Events are written again"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newAPIServer(t)
			r, log := newTestRecorder(t, s, quick)
			s.setFaultIn("full", tc.fault)
			run(t, r)
			r.Update(nil, opened(in("full", problem("a")), in("full", problem("b"))))
			eventually(t, "tried again and again", func() bool { _, _, asked := s.count(); return asked >= 5 })
			r.Update(nil, opened(problem("c"), problem("d")))
			eventually(t, "the others are told", func() bool { n, _, _ := s.count(); return n == 2 })
			s.setFaultIn("full", nil)
			eventually(t, "all are told", func() bool { n, _, _ := s.count(); return n == 4 })
			eventually(t, "its end is said", func() bool { return log.count(tc.ends) == 1 })
			if n := log.count(tc.begins); n != 1 || log.count("level=ERROR")+log.count("Events cannot be written") != 1 {
				t.Errorf("%q is said %d times, want it once and nothing else:\n%s", tc.begins, n, &log.text)
			}
		})
	}
}

// While the API server fails, Events of all namespaces are written with growing
// backoff. If it only denies the Events of one namespace, those of others are written
// at once.
func TestTroubleSlowsDown(t *testing.T) {
	p := quick
	p.leastWait, p.mostWait = time.Minute, 8*time.Minute
	for what, tc := range map[string]struct {
		fault *apierrors.StatusError
		waits []time.Duration // at most this, at least half of it
	}{
		"away":       {apierrors.NewServiceUnavailable("down"), []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 8 * time.Minute}},
		"permission": {noPermission, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 8 * time.Minute}},
		"denied":     {denied, []time.Duration{p.interval, p.interval}},
	} {
		t.Run(what, func(t *testing.T) {
			s := newAPIServer(t)
			r, _ := newTestRecorder(t, s, p)
			s.setFault(tc.fault)
			w := newWriter(r)
			now := time.Now()
			r.queue.now = func() time.Time { return now }
			for i, want := range tc.waits {
				open := in(fmt.Sprint("n", i), problem("a"))
				r.Update(nil, opened(open))
				if got := w.write(context.Background(), open); got < want/2 || got > want {
					t.Errorf("wait %d is %s, want %s to %s", i, got, want/2, want)
				}
			}
			if _, wait, ok := r.queue.next(); ok || wait <= 0 || r.queue.len() != len(tc.waits) {
				t.Errorf("of %d problems, one is due in %s; want all of them to wait", r.queue.len(), wait)
			}
			now = now.Add(2 * p.leastWait)
			if p, _, ok := r.queue.next(); !ok || p.Object.Namespace != "n0" {
				t.Errorf("next is of namespace %q, want that which was tried first", p.Object.Namespace)
			}
		})
	}
}

func TestWhatIsGoneIsNotTold(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.settle = time.Hour
	r, log := newTestRecorder(t, s, p)
	now := time.Now()
	r.fresh.now = func() time.Time { return now }
	r.Update(nil, opened(problem("passing"), problem("staying")))
	r.Update(nil, routes.Changes{Resolved: []routes.Problem{problem("passing")}})
	now = now.Add(2 * p.settle)
	run(t, r)
	eventually(t, "an Event", func() bool { n, _, _ := s.count(); return n == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.order, []string{"staying"}) || log.count("passing") != 0 {
		t.Errorf("told of %v, log:\n%s", s.order, &log.text)
	}
}

func TestAResolvedProblemIsNotTriedForever(t *testing.T) {
	s := newAPIServer(t)
	r, _ := newTestRecorder(t, s, quick)
	s.setFault(apierrors.NewServiceUnavailable("down"))
	run(t, r)
	r.Update(nil, opened(problem("a")))
	eventually(t, "tried", func() bool { _, _, asked := s.count(); return asked >= 2 })
	r.Update(nil, routes.Changes{Resolved: []routes.Problem{problem("a")}})
	s.setFault(nil)
	r.Update(nil, opened(problem("b")))
	eventually(t, "b is told", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.order, "b")
	})
}

func TestMoreProblemsThanAreQueued(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.logged = 10
	r, log := newTestRecorder(t, s, p)
	var many []routes.Problem
	for i := range 10000 {
		many = append(many, problem(fmt.Sprintf("app-%05d", i)))
	}
	r.Update(nil, opened(many...)) // nothing runs yet: Update does not wait
	run(t, r)
	eventually(t, "as many Events as are queued", func() bool { n, _, _ := s.count(); return n == p.queued })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.IsSorted(s.order) {
		t.Errorf("not in the order of the problems: %v", s.order)
	}
	if log.count("dropped=9900") != 1 || log.count("more=90") != 1 {
		t.Errorf("log:\n%s", &log.text)
	}
}

func TestWhatStillHoldsIsToldAgain(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.refresh = 10 * time.Millisecond
	r, _ := newTestRecorder(t, s, p)
	run(t, r)
	r.Update(nil, opened(problem("a")))
	eventually(t, "patched again and again", func() bool { n, patches, _ := s.count(); return n == 1 && patches >= 3 })
}

func TestQueueSetsANamespaceAside(t *testing.T) {
	q := newQueue(10, time.Second)
	now := time.Now()
	q.now = func() time.Time { return now }
	q.add([]routes.Problem{problem("a"), in("other", problem("b")), problem("c")})
	now = now.Add(time.Second)
	q.add([]routes.Problem{in("other", problem("d"))})
	q.setAside("demo", now.Add(time.Minute))
	next := func(want string, wantWait time.Duration) {
		t.Helper()
		p, wait, ok := q.next()
		if p.Object.Name != want || wait != wantWait || ok != (want != "") {
			t.Errorf("next is %q in %s, want %q in %s", p.Object.Name, wait, want, wantWait)
		}
	}
	next("b", 0)
	next("", time.Second)
	now = now.Add(time.Second)
	next("d", 0)
	next("", time.Minute-time.Second)
	now = now.Add(time.Minute)
	next("a", 0)
	next("c", 0)
	next("", -1)
}

func TestQueueMakesRoomOfWhatWasTakenBack(t *testing.T) {
	q := newQueue(2, 0)
	if n := q.add([]routes.Problem{problem("a"), problem("b"), problem("c")}); n != 1 {
		t.Errorf("%d dropped, want 1", n)
	}
	if others := q.remove([]routes.Problem{problem("a"), problem("c")}); len(others) != 1 || others[0] != problem("c") {
		t.Errorf("others %v, want c", others)
	}
	if n := q.add([]routes.Problem{problem("b"), problem("d")}); n != 0 {
		t.Errorf("%d dropped, want none", n)
	}
	for _, want := range []string{"b", "d"} {
		if p, _, ok := q.next(); !ok || p.Object.Name != want {
			t.Errorf("next is %q, want %q", p.Object.Name, want)
		}
	}
	if _, wait, ok := q.next(); ok || wait >= 0 {
		t.Error("the queue is not empty")
	}
}
