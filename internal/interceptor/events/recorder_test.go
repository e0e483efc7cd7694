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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// patience bounds each wait for something that has to come.
const patience = 30 * time.Second

// quick paces so that tests need not wait.
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
	fault   *apierrors.StatusError
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{events: make(map[string]*corev1.Event)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *apiServer) setFault(fault *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
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
	if s.fault != nil {
		refuse(s.fault)
		return
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

func TestEventsOutliveAnAPIServerThatIsAway(t *testing.T) {
	for what, fault := range map[string]*apierrors.StatusError{
		"away":    apierrors.NewServiceUnavailable("down"),
		"refuses": apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("cannot create")),
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
	r.Update(nil, opened(many...)) // nothing runs yet: it does not wait
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
