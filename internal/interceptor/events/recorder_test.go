package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	settle: time.Millisecond, perSecond: -1, timeout: time.Hour, leastWait: time.Millisecond, mostWait: 5 * time.Millisecond,
	refresh: time.Hour, waiting: 100, logged: 100,
}

// apiServer keeps Events as an API server does.
type apiServer struct {
	url string

	mu      sync.Mutex
	events  map[string]*corev1.Event
	order   []string // objects, in the order of their Events
	hangs   string   // the namespace whose requests get no answer
	hanging int      // requests that get none
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
	namespace, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.hangs == namespace {
		s.hanging++
		s.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client goes
		<-r.Context().Done()
		s.mu.Lock()
		s.hanging--
		return
	}
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status *apierrors.StatusError) {
		status.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		if after := status.ErrStatus.Details; after != nil && after.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(after.RetryAfterSeconds))
		}
		w.WriteHeader(int(status.ErrStatus.Code))
		_ = json.NewEncoder(w).Encode(status.ErrStatus)
	}
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
	r, err := newRecorder(&rest.Config{Host: s.url}, slog.New(slog.NewTextHandler(log, nil)), p)
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
			if n := log.count("cannot be written now"); n != 1 {
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
		fault *apierrors.StatusError
		says  string
	}{
		"denied":     {denied, "no Events here"},
		"webhook":    {noWebhook, "no endpoints available"},
		"permission": {noPermission, "grant create and patch on events"},
		// client-go by itself would wait for an hour.
		"busy": {apierrors.NewTooManyRequests("too many requests", 3600), "too many requests"},
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
			eventually(t, "its end is said", func() bool { return log.count(`written again" namespace=full`) == 1 })
			eventually(t, "the next failure is tried again as soon as the first one", func() bool { return r.queue.NumRequeues("full") == 0 })
			if log.count("level=ERROR") != 1 || log.count(`others are written" namespace=full`) != 1 || log.count(tc.says) != 1 {
				t.Errorf("%q is to be said once, and nothing else:\n%s", tc.says, &log.text)
			}
		})
	}
}

// A namespace that goes is not asked again for the same Event.
func TestANamespaceThatGoes(t *testing.T) {
	s := newAPIServer(t)
	r, log := newTestRecorder(t, s, quick)
	goes := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "a.0", errors.New("the namespace is being terminated"))
	goes.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	s.setFaultIn("goes", goes)
	run(t, r)
	r.Update(nil, opened(in("goes", problem("a")), in("goes", problem("b"))))
	eventually(t, "each Event tried", func() bool { _, _, asked := s.count(); return asked == 2 })
	r.Update(nil, opened(problem("c")))
	eventually(t, "another namespace's Event", func() bool { n, _, _ := s.count(); return n == 1 })
	if _, _, asked := s.count(); asked != 3 || log.count("level=ERROR") > 0 {
		t.Errorf("%d requests, want 3; log:\n%s", asked, &log.text)
	}
}

// A namespace whose problems open in great number, again and again, delays no Event of
// another, drops none, and takes no line of the log from it.
func TestOneTenantNeitherDelaysNorDropsTheEventsOfAnother(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.waiting = 5000
	r, log := newTestRecorder(t, s, p)
	var flood []routes.Problem
	for i := range 10000 {
		flood = append(flood, in("flood", problem(fmt.Sprintf("app-%05d", i))))
	}
	r.Update(nil, opened(flood...))
	r.Update(nil, opened(problem("quiet")))
	run(t, r)
	eventually(t, "the Event of the other namespace", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.order, "quiet")
	})
	eventually(t, "what is dropped is said, of that namespace alone", func() bool {
		return log.count("dropped=5000") == 1 && log.count("namespace=flood dropped") == 1
	})
	if n := log.count("httpso=quiet reason=InvalidHost"); n != 1 {
		t.Errorf("the log tells %d times of the problem of the other namespace, want once", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// They take turns from when both are in the queue, which on a busy machine may be late.
	if at := slices.Index(s.order, "quiet"); at > p.waiting/2 {
		t.Errorf("%d Events of one namespace before the only one of another", at)
	}
}

// New problems of a namespace whose Events cannot be written do not have it tried earlier.
func TestAFailingNamespaceIsTriedNoEarlier(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.leastWait, p.mostWait = time.Hour, time.Hour
	r, _ := newTestRecorder(t, s, p)
	s.setFaultIn("full", denied)
	run(t, r)
	r.Update(nil, opened(in("full", problem("a"))))
	eventually(t, "tried", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.failing["full"] })
	for i := range 5 {
		name := fmt.Sprint("p", i)
		r.Update(nil, opened(in("full", problem(name)), problem(name)))
		eventually(t, "the other namespace's Event", func() bool { n, _, _ := s.count(); return n == i+1 })
	}
	if _, _, asked := s.count(); asked != 6 {
		t.Errorf("%d requests, want 6: one of the failing namespace", asked)
	}
}

// Namespaces whose requests hang hold up no other.
func TestNamespacesWhoseRequestsHang(t *testing.T) {
	s := newAPIServer(t)
	r, _ := newTestRecorder(t, s, quick)
	s.hangs = "slow"
	run(t, r)
	r.Update(nil, opened(in("slow", problem("a"))))
	eventually(t, "a request hangs", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.hanging == 1 })
	r.Update(nil, opened(in("slow", problem("b")), problem("c"), problem("d")))
	eventually(t, "the others are told", func() bool { n, _, _ := s.count(); return n == 2 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hanging != 1 {
		t.Errorf("%d requests hang, want the first one alone", s.hanging)
	}
}

// A request that hangs is given up, and the Event is tried again.
func TestARequestThatHangsIsGivenUp(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.timeout = 10 * time.Millisecond
	r, _ := newTestRecorder(t, s, p)
	s.hangs = "demo"
	run(t, r)
	r.Update(nil, opened(problem("a")))
	eventually(t, "tried again", func() bool { _, _, asked := s.count(); return asked >= 3 })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = ""
}

// Run returns when its context ends, though requests hang and Events wait.
func TestRunReturnsThoughRequestsHang(t *testing.T) {
	s := newAPIServer(t)
	r, _ := newTestRecorder(t, s, quick)
	s.hangs = "demo"
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.Run(ctx)
	}()
	r.Update(nil, opened(problem("a"), problem("b"), in("other", problem("c"))))
	eventually(t, "a request hangs", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.hanging == 1 })
	end()
	select {
	case <-over:
	case <-time.After(patience):
		t.Error("Run does not return")
	}
}

// A problem that is gone before it has settled is neither logged nor has an Event.
func TestWhatIsGoneIsNotTold(t *testing.T) {
	s := newAPIServer(t)
	r, log := newTestRecorder(t, s, quick)
	r.Update(nil, opened(problem("passing"), problem("staying")))
	r.Update(nil, routes.Changes{Resolved: []routes.Problem{problem("passing")}})
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

func TestMoreProblemsThanMayWait(t *testing.T) {
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
	eventually(t, "as many Events as may wait", func() bool { n, _, _ := s.count(); return n == p.waiting })
	eventually(t, "the others are said to be dropped", func() bool { return log.count("dropped=9900") == 1 && log.count("more=9990") == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.IsSorted(s.order) {
		t.Errorf("not in the order of the problems: %v", s.order)
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

// What is gone makes room for others, and what opens again is told again.
func TestWhatIsGoneMakesRoom(t *testing.T) {
	s := newAPIServer(t)
	p := quick
	p.waiting = 2
	r, log := newTestRecorder(t, s, p)
	s.setFault(apierrors.NewServiceUnavailable("down"))
	run(t, r)
	r.Update(nil, opened(problem("a"), problem("b")))
	eventually(t, "tried", func() bool { _, _, asked := s.count(); return asked >= 3 })
	r.Update(nil, routes.Changes{Resolved: []routes.Problem{problem("a"), problem("b")}})
	r.Update(nil, opened(problem("c"), problem("b")))
	eventually(t, "both logged", func() bool {
		return log.count("httpso=c")+log.count("WARN msg=\"a problem with an HTTPScaledObject\" namespace=demo httpso=b") == 3
	})
	s.setFault(nil)
	eventually(t, "both told", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Equal(slices.Sorted(slices.Values(s.order)), []string{"b", "c"})
	})
	if log.count("dropped") > 0 {
		t.Errorf("log:\n%s", &log.text)
	}
}
