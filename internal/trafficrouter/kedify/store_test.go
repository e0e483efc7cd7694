package kedify

import (
	"slices"
	"testing"

	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// The states of a query are those of the objects that it finds, so that the frame answers
// unchanged calls from memory; they are others once an object has changed.
func TestStates(t *testing.T) {
	server := apiservertest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		server.Put(httpso, "demo", name, carrying(written, "app"))
	}
	router, _ := newRouter(t, server)
	watching(t, router)
	states := func(q trafficrouter.Query) []kube.State {
		t.Helper()
		found, _, err := router.objects.Having(t.Context(), q, 0)
		if q.Name != "" {
			found, err = router.objects.Find(t.Context(), q)
		}
		if err != nil {
			t.Fatal(err)
		}
		var read []kube.State
		for _, object := range found {
			read = append(read, router.objects.StateOf(object))
		}
		states, ok := router.objects.States(q)
		if !ok || !slices.Equal(states, read) {
			t.Errorf("%s: states %v, %t, want %v", q, states, ok, read)
		}
		return states
	}
	named, ofRollout := queryFor("demo", "b"), trafficrouter.Query{Kind: kind, Rollout: k8stypes.NamespacedName{Namespace: "demo", Name: "app"}}
	before, all := states(named), states(ofRollout)
	if len(before) != 1 || len(all) != 3 {
		t.Fatalf("%d and %d states", len(before), len(all))
	}
	server.Put(httpso, "demo", "b", carrying(written, "app"))
	eventually(t, "the watch shows the change", func() bool {
		return !slices.Equal(before, states(named)) && !slices.Equal(all, states(ofRollout))
	})
	if states, ok := router.objects.States(queryFor("demo", "none")); !ok || len(states) != 0 {
		t.Errorf("states %v, %t of an object that is not there", states, ok)
	}
}
