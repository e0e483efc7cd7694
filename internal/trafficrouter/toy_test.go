package trafficrouter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
)

// A toy is an object whose annotation canary says which Rollout gives its canary which
// weight ("demo/app=20"), and whose annotation routes has the header routes.
type toy = unstructured.Unstructured

const toyPlugin = "example.com/toy"

var toyResource = schema.GroupResource{Group: "example.com", Resource: "toys"}

func newToy(name string) *toy {
	t := &toy{Object: map[string]any{}}
	t.SetAPIVersion("example.com/v1")
	t.SetKind("Toy")
	t.SetNamespace("demo")
	t.SetName(name)
	t.SetResourceVersion("1")
	return t
}

// toys are the backend and the store of a router, in memory.
type toys struct {
	mu      sync.Mutex
	objects map[string]*toy // by name
	// fails has the error of each write of an object.
	fails map[string]error
	// unread is the error of each read.
	unread error
	// passed is the header route that passed steps have set.
	passed string
	// asked counts what is read and decided.
	asked   int
	written []string
	// beforeWrite is called before a write, where set.
	beforeWrite func()
}

func (s *toys) Configure(ro *v1alpha1.Rollout) (Config[struct{}], error) {
	var names []string
	if err := json.Unmarshal(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[toyPlugin], &names); err != nil {
		return Config[struct{}]{}, errors.New("the configuration is no list of names")
	}
	var c Config[struct{}]
	for _, name := range names {
		c.Objects = append(c.Objects, Selected[struct{}]{Query: Query{Kind: "Toy", Namespace: ro.Namespace, Name: name}})
	}
	return c, nil
}

func (s *toys) Decide(_ context.Context, p *Plan, t Target[*toy, struct{}]) (Decision[*toy, struct{}], error) {
	s.asked++
	wanted := t.Object.DeepCopy()
	has := wanted.GetAnnotations()
	if has == nil {
		has = map[string]string{}
	}
	if owners := s.Owners(t.Object); len(owners) > 0 && owners[0].Rollout != p.Name() && !p.AtRest() {
		return Decision[*toy, struct{}]{}, &ForeignError{Owner: owners[0], Err: errors.New("another has it")}
	}
	for _, call := range p.RouteCalls {
		switch {
		case call.Removes():
			delete(has, "routes")
		default:
			has["routes"] = call.Name()
		}
	}
	if p.PutBack && s.passed != "" {
		has["routes"] = s.passed
	}
	if p.Weights != nil {
		delete(has, "canary")
		if !p.AtRest() {
			has["canary"] = fmt.Sprintf("%s=%d", p.Name(), p.Weights.Canary)
		}
	}
	wanted.SetAnnotations(has)
	return Decision[*toy, struct{}]{Object: wanted, Changed: !maps.Equal(has, t.Object.GetAnnotations())}, nil
}

func (s *toys) Release(_ context.Context, object *toy, owner Owner, _ *v1alpha1.Rollout) (Decision[*toy, struct{}], error) {
	released := object.DeepCopy()
	changed := slices.Contains(s.Owners(object), owner)
	if changed {
		released.SetAnnotations(nil)
	}
	return Decision[*toy, struct{}]{Object: released, Changed: changed}, nil
}

func (s *toys) Owners(object *toy) []Owner {
	key, _, ok := strings.Cut(object.GetAnnotations()["canary"], "=")
	if !ok {
		return nil
	}
	namespace, name, _ := strings.Cut(key, "/")
	return []Owner{{Rollout: Query{Namespace: namespace, Name: name}.Ref().NamespacedName, Plugin: toyPlugin}}
}

func (s *toys) InPlace(object *toy, ro *v1alpha1.Rollout) (canary int32, ok bool) {
	key, weight, ok := strings.Cut(object.GetAnnotations()["canary"], "=")
	number, _ := strconv.Atoi(weight)
	return int32(number), ok && key == ro.Namespace+"/"+ro.Name
}

func (s *toys) Takes(targets []Target[*toy, struct{}], _ RouteCall) ([]Target[*toy, struct{}], error) {
	return targets, nil
}
func (s *toys) Verify(context.Context, *Plan, []Target[*toy, struct{}]) error { return nil }
func (s *toys) ChangedBy(_, _ *toy) Change                                    { return Change{Text: "somebody has changed it"} }
func (s *toys) Missing(q Query, _ error) error                                { return fmt.Errorf("%s not found", q) }

func (s *toys) Find(_ context.Context, q Query) ([]*toy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.unread != nil {
		return nil, s.unread
	}
	if object, ok := s.objects[q.Name]; ok {
		return []*toy{object.DeepCopy()}, nil
	}
	return nil, apierrors.NewNotFound(toyResource, q.Name)
}

func (s *toys) Having(_ context.Context, q Query, _ time.Duration) (found []*toy, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if owners := s.Owners(s.objects[name]); len(owners) > 0 && owners[0].Rollout == q.Rollout {
			found = append(found, s.objects[name].DeepCopy())
		}
	}
	return found, true, nil
}

func (s *toys) States(q Query) (states []kube.State, ok bool) {
	asked := s.asked
	defer func() { s.asked = asked }()
	var found []*toy
	if q.Name != "" {
		found, _ = s.Find(context.Background(), q)
	} else {
		found, _, _ = s.Having(context.Background(), q, 0)
	}
	for _, object := range found {
		states = append(states, s.StateOf(object))
	}
	return states, true
}

func (s *toys) StateOf(object *toy) kube.State { return kube.StateOf(object) }

func (s *toys) Watched(ref Ref) (*toy, bool) {
	found, err := s.Find(context.Background(), Query{Name: ref.Name})
	if err != nil {
		return nil, true
	}
	return found[0], true
}

func (s *toys) Read(ctx context.Context, ref Ref) (*toy, error) {
	found, err := s.Find(ctx, Query{Name: ref.Name})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (s *toys) Write(_ context.Context, current, desired *toy) (*toy, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := current.GetName()
	if s.beforeWrite != nil {
		s.beforeWrite()
	}
	switch {
	case s.fails[name] != nil:
		return nil, s.fails[name]
	case s.objects[name].GetResourceVersion() != current.GetResourceVersion():
		return nil, apierrors.NewConflict(toyResource, name, errors.New("changed"))
	}
	written := desired.DeepCopy()
	version, _ := strconv.Atoi(current.GetResourceVersion())
	written.SetResourceVersion(strconv.Itoa(version + 1))
	s.objects[name] = written
	s.written = append(s.written, name)
	return written.DeepCopy(), nil
}

func (s *toys) Marks(context.Context) []Mark { return nil }
func (s *toys) Close()                       {}

// at says what an object has: the weight of its canary and its routes.
func (s *toys) at(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, weight, _ := strings.Cut(s.objects[name].GetAnnotations()["canary"], "=")
	return strings.TrimSpace(weight + " " + s.objects[name].GetAnnotations()["routes"])
}

// newRouter returns a router of toys with these names, and its API server.
func newRouter(t *testing.T, names ...string) (*Router[*toy, struct{}], *toys, *apiservertest.Server) {
	t.Helper()
	server := apiservertest.New(t)
	s := &toys{objects: map[string]*toy{}, fails: map[string]error{}}
	for _, name := range names {
		s.objects[name] = newToy(name)
	}
	r := New[*toy, struct{}](s, s, Options{
		PluginName: toyPlugin, FieldManager: "toy", Kinds: []string{"Toy"}, LogField: "toy", SelfHeal: true, Connect: server.Config, Logger: hclog.NewNullLogger(),
		Resource: func(string) string { return "toys" },
	})
	r.Request.Kept = "the toy"
	t.Cleanup(r.Close)
	return r, s, server
}

// rolloutOf is a Rollout in the middle of a canary that names these toys.
func rolloutOf(toys ...string) *v1alpha1.Rollout {
	config, _ := json.Marshal(toys)
	ro := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: "u-1", Generation: 1},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "app-stable", CanaryService: "app-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{toyPlugin: config}},
		}}},
	}
	ro.Status.StableRS, ro.Status.CurrentPodHash = "old", "new"
	return ro
}

var succeed, fail, eventually = plugintest.Succeed, plugintest.Fail, plugintest.Eventually

// requireEvent waits for an Event on the Rollout with these words.
func requireEvent(t *testing.T, server *apiservertest.Server, words string) {
	t.Helper()
	eventually(t, "an Event: "+words, func() bool {
		return slices.ContainsFunc(server.Events(), func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "app" && strings.Contains(e.Message, words)
		})
	})
}
