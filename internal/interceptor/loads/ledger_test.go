package loads

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

// patience is how long anything in these tests may take.
const patience = time.Minute

var (
	app   = types.NamespacedName{Namespace: "demo", Name: "app"}
	other = types.NamespacedName{Namespace: "demo", Name: "other"}
)

func always(types.NamespacedName) bool { return true }

// scaler reads the stream, and has what it was told of Sources that have not ended.
type scaler struct {
	t       *testing.T
	decoder *json.Decoder
	sources map[string]known
}

// known is what a scaler knows of a Source.
type known struct {
	Address            string
	WithoutLoadReports bool
	Objects            map[string]loadreport.Object
}

func newScaler(t *testing.T, l *Ledger) *scaler {
	t.Helper()
	server := httptest.NewUnstartedServer(l)
	server.Config.WriteTimeout = 100 * time.Millisecond // which is not for the stream
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	response, err := (&http.Client{Timeout: patience}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return &scaler{t: t, decoder: json.NewDecoder(response.Body), sources: make(map[string]known)}
}

// read reads a message.
func (s *scaler) read() loadreport.Message {
	s.t.Helper()
	var m loadreport.Message
	if err := s.decoder.Decode(&m); err != nil {
		s.t.Fatal(err)
	}
	for _, source := range m.Sources {
		k, ok := s.sources[source.ID]
		if !ok {
			k = known{Objects: make(map[string]loadreport.Object)}
		}
		k.Address, k.WithoutLoadReports = source.Address, source.WithoutLoadReports
		for _, o := range source.Objects {
			k.Objects[o.Namespace+"/"+o.Name] = o
			if o.Gone {
				delete(k.Objects, o.Namespace+"/"+o.Name)
			}
		}
		s.sources[source.ID] = k
		if source.Ended {
			delete(s.sources, source.ID)
		}
	}
	return m
}

// knows reads until the scaler knows this, by addresses.
func (s *scaler) knows(want map[string][]loadreport.Object) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; s.read() {
		have := make(map[string][]loadreport.Object)
		for _, k := range s.sources {
			objects := []loadreport.Object{}
			for _, name := range []types.NamespacedName{app, other} {
				if o, ok := k.Objects[name.String()]; ok {
					objects = append(objects, o)
				}
			}
			have[k.Address] = objects
		}
		diff := cmp.Diff(want, have)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(diff)
		}
	}
}

func figuresOf(object types.NamespacedName, requests, active, held int64) loadreport.Object {
	return loadreport.Object{Namespace: object.Namespace, Name: object.Name, Requests: requests, Active: active, Held: held}
}

// A scaler is told all figures first, and of each change after that.
func TestAScalerIsToldAllAndThenWhatChanges(t *testing.T) {
	l := New(always)
	own := l.Own().Counters(app)
	own.Count(3)
	own.Begin()
	l.Own().Counters(other).Count(5)
	envoy := l.Stream("10.0.0.1", "shop/proxy")
	envoy.Report(map[types.NamespacedName]Figures{app: {Requests: 7, Active: 2}, other: {Requests: 1}})
	s := newScaler(t, l)
	s.read()
	s.knows(map[string][]loadreport.Object{
		"":         {figuresOf(app, 3, 1, 0), figuresOf(other, 5, 0, 0)},
		"10.0.0.1": {figuresOf(app, 7, 2, 0), figuresOf(other, 1, 0, 0)},
	})
	own.End()
	own.Count(-1)
	envoy.Report(map[types.NamespacedName]Figures{app: {Requests: 1}})
	for m := s.read(); ; m = s.read() {
		var objects []loadreport.Object
		for _, source := range m.Sources {
			objects = append(objects, source.Objects...)
		}
		if len(objects) == 0 {
			continue
		}
		if diff := cmp.Diff([]loadreport.Object{figuresOf(app, 2, 0, 0), figuresOf(app, 8, 0, 0)}, objects); diff != "" {
			t.Error(diff)
		}
		break
	}
	envoy.Report(map[types.NamespacedName]Figures{other: {Active: 4}})
	s.knows(map[string][]loadreport.Object{
		"":         {figuresOf(app, 2, 0, 0), figuresOf(other, 5, 0, 0)},
		"10.0.0.1": {figuresOf(app, 8, 0, 0), figuresOf(other, 1, 4, 0)},
	})
}

// A report without changes is told of, too: its Source is alive. A Source that is silent is
// left out, and so is one that has not reported yet.
func TestASourceIsInAMessageWhenItReported(t *testing.T) {
	l := New(always)
	envoy := l.Stream("10.0.0.1", "shop/proxy")
	r := &reader{}
	for _, step := range []struct {
		reports bool
		want    int
	}{{false, 1}, {true, 2}, {false, 1}, {true, 2}, {false, 1}} {
		if step.reports {
			envoy.Report(nil)
		}
		if got := l.changesFor(r); len(got) != step.want {
			t.Errorf("reports %v: %d Sources are in the message, want %d", step.reports, len(got), step.want)
		}
	}
}

// Each scaler is told of the end of a Source, with its last figures. One that connects
// later is told of neither.
func TestScalersAreToldOfTheEndOfASource(t *testing.T) {
	l := New(always)
	first, second := &reader{}, &reader{}
	l.readers[first], l.readers[second] = struct{}{}, struct{}{}
	envoy := l.Stream("10.0.0.1", "shop/proxy")
	l.changesFor(first)
	l.changesFor(second)
	envoy.Report(map[types.NamespacedName]Figures{app: {Requests: 7}})
	envoy.End()
	for i, r := range []*reader{first, second} {
		got := l.changesFor(r)
		if len(got) != 2 || !got[1].source.Ended || len(got[1].objects) != 1 || got[1].objects[0].report().Requests != 7 {
			t.Errorf("scaler %d is told %+v", i, got)
		}
		if late := l.changesFor(&reader{}); len(late) != 1 {
			t.Errorf("a new scaler is told %+v", late)
		}
	}
	if len(l.sources) != 1 {
		t.Errorf("there are %d Sources after all scalers were told, want 1", len(l.sources))
	}
	if got := l.changesFor(first); len(got) != 1 {
		t.Errorf("told again: %+v", got)
	}
}

// A kedify-proxy without a load reporting stream is a Source until that changes.
func TestAScalerIsToldWhichKedifyProxyReportsNothing(t *testing.T) {
	l := New(always)
	without := l.WithoutLoadReports("10.0.0.1", "shop/proxy")
	s := newScaler(t, l)
	if m := s.read(); len(m.Sources) != 2 || !m.Sources[1].WithoutLoadReports || m.Sources[1].Address != "10.0.0.1" {
		t.Errorf("told %+v", m)
	}
	without.End()
	s.knows(map[string][]loadreport.Object{"": {}})
}

// The counters of a deleted object stay while requests of it are under way. Then they go,
// and scalers are told so. An object of that name begins at 0.
func TestCountersOfDeletedObjectsGo(t *testing.T) {
	var gone atomic.Bool
	l := New(func(object types.NamespacedName) bool { return object != app || !gone.Load() })
	sweep := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.swept = time.Time{}
		l.sweepLocked()
	}
	s := newScaler(t, l)
	own, envoy := l.Own().Counters(app), l.Stream("10.0.0.1", "shop/proxy")
	own.Count(9)
	own.Begin()
	envoy.Report(map[types.NamespacedName]Figures{app: {Requests: 7}, other: {Requests: 1}})
	s.knows(map[string][]loadreport.Object{"": {figuresOf(app, 9, 1, 0)}, "10.0.0.1": {figuresOf(app, 7, 0, 0), figuresOf(other, 1, 0, 0)}})
	gone.Store(true)
	own.Forget()
	sweep()
	s.knows(map[string][]loadreport.Object{"": {figuresOf(app, 9, 1, 0)}, "10.0.0.1": {figuresOf(other, 1, 0, 0)}})
	if got := l.Own().Counters(app); got != own {
		t.Error("the counters are others while a request is under way")
	}
	own.End()
	sweep()
	if got := l.Own().Counters(app); got != own {
		t.Error("the counters are others while they are kept")
	}
	own.Forget()
	gone.Store(false)
	l.Own().Counters(app).Count(1)
	s.knows(map[string][]loadreport.Object{"": {figuresOf(app, 1, 0, 0)}, "10.0.0.1": {figuresOf(other, 1, 0, 0)}})
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.own.gone) > 0 {
		t.Errorf("%+v is kept after the scaler was told", l.own.gone)
	}
}

// A scaler that takes nothing is given up, and what it was to be told is not kept for it.
func TestAScalerThatTakesNothingIsGivenUp(t *testing.T) {
	l := New(always)
	for i := range 10 {
		l.Own().Counters(types.NamespacedName{Namespace: "demo", Name: string(rune('a' + i))}).Count(1)
	}
	l.ServeHTTP(&deafWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil))
	l.Stream("10.0.0.1", "shop/proxy").End()
	if len(l.sources) != 1 || len(l.readers) != 0 {
		t.Errorf("%d Sources and %d scalers are left, want 1 and none", len(l.sources), len(l.readers))
	}
}

// deafWriter fails as a connection does past its write deadline.
type deafWriter struct{ *httptest.ResponseRecorder }

func (deafWriter) SetWriteDeadline(time.Time) error { return nil }

func (deafWriter) Write([]byte) (int, error) { return 0, errors.New("i/o timeout") }
