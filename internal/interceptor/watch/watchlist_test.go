package watch

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
)

// watchLists turns on what KUBE_FEATURE_WatchListClient=true does: a watch begins with all
// objects, and nothing is listed.
func watchLists(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, true)
}

var tableResources = []string{"httpscaledobjects", "services", "endpointslices"}

func TestWatchListFirstTableIsComplete(t *testing.T) {
	watchLists(t)
	w := newWorld(t)
	w.app("a")
	w.app("b")
	watching := w.start(Options{})
	w.becomes("a a:100:1, b b:100:1")
	if w.updates != 1 {
		t.Errorf("%d tables before all objects were in one", w.updates)
	}
	w.eventually("seen", func() bool { return !watching.LastSeen().IsZero() })
	w.app("c")
	w.becomes("a a:100:1, b b:100:1, c c:100:1")
	w.api.delete("httpscaledobjects", "demo", "a")
	w.becomes("b b:100:1, c c:100:1")
	for _, resource := range tableResources {
		if lists, watches := w.api.count("list", resource), w.api.count("watch", resource); lists != 0 || watches != 1 {
			t.Errorf("%s: %d lists and %d watches, want a watch alone", resource, lists, watches)
		}
	}
}

// What holds with lists holds with watches that begin with all objects.
func TestWatchListInTrouble(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"an empty cluster":                 TestAnEmptyClusterHasATableToo,
		"one namespace":                    TestOnlyOneNamespace,
		"versions too old":                 TestRelistDeletesWhatIsGone,
		"an outage":                        TestAPIServerAway,
		"an outage at the start":           TestStartWithoutAPIServer,
		"a missing definition":             TestMissingDefinitionIsTold,
		"unreadable objects":               TestOneUnreadableObjectIsQuarantined,
		"addresses":                        TestAddressesOfAService,
		"an address Service apart":         TestAMissingAddressServiceIsTold,
		"an address Service not read":      TestAnAddressServiceThatMayNotBeRead,
		"endpoints of the address Service": TestServiceEndpoints,
		"such endpoints that are not read": TestServiceEndpointsRefused,
	} {
		t.Run(name, func(t *testing.T) {
			watchLists(t)
			test(t)
		})
	}
}

// An API server that has no watches that begin with all objects, or cuts them, is asked for
// a list. It is not said to be away.
func TestWatchListOtherwiseAList(t *testing.T) {
	for name, as := range map[string]initialEvents{"refused": refuseInitial, "cut": cutInitial, "without a bookmark": ignoreInitial} {
		t.Run(name, func(t *testing.T) {
			watchLists(t)
			w := newWorld(t)
			w.api.mu.Lock()
			w.api.initial = as
			w.api.mu.Unlock()
			w.app("a")
			w.start(Options{})
			w.becomes("a a:100:1")
			w.app("b")
			w.becomes("a a:100:1, b b:100:1")
			for _, resource := range tableResources {
				if n := w.api.count("list", resource); n != 1 {
					t.Errorf("%s were listed %d times", resource, n)
				}
			}
			if n := w.log.count("does not answer"); n > 0 {
				t.Errorf("said to be away:\n%s", &w.log.text)
			}
		})
	}
}

// A watch that begins with all objects is renewed as any other, and after an outage goes on
// where it was, even with versions that the API server has forgotten meanwhile.
func TestWatchListIsRenewed(t *testing.T) {
	watchLists(t)
	w := newWorld(t)
	w.app("a")
	w.app("b")
	watching := w.start(Options{Renew: time.Second})
	w.becomes("a a:100:1, b b:100:1")
	renewed := func(when string) {
		t.Helper()
		from := make(map[string]int)
		for _, resource := range tableResources {
			from[resource] = w.api.count("watch", resource)
		}
		w.eventually("renewed "+when, func() bool {
			for _, resource := range tableResources {
				if w.api.count("watch", resource) < from[resource]+3 {
					return false
				}
			}
			return true
		})
	}
	renewed("from the start")
	if n := w.api.count("watch all", "services"); n != 1 {
		t.Errorf("%d watches began with all Services, want the first alone", n)
	}
	w.api.setFault(down)
	w.eventually("it is said that it is away", func() bool { return w.log.count("does not answer") == 1 })
	seen := watching.LastSeen()
	w.api.delete("httpscaledobjects", "demo", "a")
	w.api.forget()
	w.api.setFault(nil)
	w.becomes("b b:100:1")
	w.eventually("seen after the outage", func() bool { return watching.LastSeen().After(seen) })
	renewed("after the outage")
}

// The time for all objects is not that of a watch that is renewed: 10,000 take longer. An API
// server that is silent is given up.
func TestWatchListHasAMinuteForAllObjects(t *testing.T) {
	s := &source{
		kind: services, renew: time.Second, contact: newContact(slog.New(slog.DiscardHandler), newMetrics()),
		watch: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			by, bounded := ctx.Deadline()
			if left := time.Until(by); !bounded || left < time.Minute || *o.TimeoutSeconds != 60 || o.ResourceVersion != "" {
				t.Errorf("asked for %+v, and given up after %v", o, left)
			}
			return apiwatch.NewFake(), nil
		},
	}
	s.contact.begin(s)
	all, seconds := true, int64(300)
	if _, err := s.watchFrom(t.Context(), metav1.ListOptions{SendInitialEvents: &all, TimeoutSeconds: &seconds, ResourceVersion: "7"}); err != nil {
		t.Fatal(err)
	}
}

// client-go keeps all objects until the last has come: without what no table is made of.
func TestWatchListObjectsAreStripped(t *testing.T) {
	c, err := newClient(newAPIServer(t).config())
	if err != nil {
		t.Fatal(err)
	}
	text := `{"apiVersion":"v1","kind":"Any","metadata":{"namespace":"demo","name":"a","managedFields":[{"manager":"x","fieldsV1":{"f:spec":{}}}],
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","kedify.io/kept":"x"},"labels":{"kept":"x"}},
		"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true},"nodeName":"n","targetRef":{"kind":"Pod"}}],
		"spec":{"hosts":["a.test"],"ports":[{"port":80}]},"status":{"conditions":[]}}`
	for _, of := range []struct {
		source *source
		object runtime.Object
	}{
		{c.httpScaledObjects(""), &unstructured.Unstructured{}}, {c.services(""), &corev1.Service{}}, {c.endpointSlices(""), &discoveryv1.EndpointSlice{}},
	} {
		if err := json.Unmarshal([]byte(text), of.object); err != nil {
			t.Fatal(err)
		}
		kept, err := (&store{source: of.source}).Transformer()(of.object)
		if err != nil {
			t.Fatal(err)
		}
		is, err := json.Marshal(kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"managedFields", "last-applied", "nodeName", "targetRef"} {
			if strings.Contains(string(is), gone) {
				t.Errorf("%T is kept with %s: %s", kept, gone, is)
			}
		}
		if !strings.Contains(string(is), "kedify.io/kept") {
			t.Errorf("%T has lost annotations: %s", kept, is)
		}
	}
}
