package rolloutsplugin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

func rolloutIn(namespace string) *corev1.ObjectReference {
	return RolloutReference(&v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app", UID: "u-1"}})
}

// written waits until the server has so many Events.
func written(t *testing.T, server *apiservertest.Server, count int) []corev1.Event {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		events := server.Events()
		if len(events) >= count {
			return events
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d Events, want %d", len(events), count)
		}
	}
}

func TestAWarningBecomesOneEvent(t *testing.T) {
	server := apiservertest.New(t)
	events := NewEvents(server.Config, "router", hclog.NewNullLogger())
	t.Cleanup(events.Close)
	for range 3 {
		events.Warn(rolloutIn("demo"), "Reason", "topic", "said for the first time")
	}
	events.Warn(rolloutIn("demo"), "Reason", "another topic", strings.Repeat("ü", 2000))
	got := written(t, server, 2)
	if len(got) != 2 {
		t.Fatalf("%d Events, want 2", len(got))
	}
	first := got[0]
	if first.Message != "said for the first time" || first.Reason != "Reason" || first.Type != "Warning" || first.InvolvedObject.Kind != "Rollout" ||
		first.InvolvedObject.UID != "u-1" || first.Namespace != "demo" || first.Source.Component != "router" || first.LastTimestamp.IsZero() {
		t.Errorf("Event %+v", first)
	}
	if long := got[1].Message; len(long) > 1024 || !utf8.ValidString(long) || !strings.HasSuffix(long, "controller's log)") {
		t.Errorf("a long message became %d bytes: …%s", len(long), long[len(long)-60:])
	}
}

func TestAWarningThatHoldsIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		events := NewEvents(func() (*rest.Config, error) { calls.Add(1); return nil, rest.ErrNotInCluster }, "router", hclog.NewNullLogger())
		defer events.Close()
		w := warning{uid: "u-1", reason: "Reason", topic: "topic"}
		if !events.due(w) || events.due(w) {
			t.Error("not said once")
		}
		time.Sleep(repeatAfter - time.Second)
		if events.due(w) {
			t.Error("said again before its Event expires")
		}
		time.Sleep(time.Second)
		if !events.due(w) {
			t.Error("not said again")
		}
		time.Sleep(repeatAfter)
		events.due(warning{uid: "u-2"})
		if len(events.told) != 1 {
			t.Errorf("%d warnings kept", len(events.told))
		}
	})
}

// A namespace that takes no Events holds up no other; what may pass is tried
// again.
func TestRefusedEvents(t *testing.T) {
	server := apiservertest.New(t)
	var busy atomic.Int32
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		switch {
		case r.Verb != "create":
			return false
		case r.Namespace == "closed":
			apiservertest.Forbidden(w, r)
			return true
		case r.Namespace == "busy" && busy.Add(1) == 1:
			apiservertest.Fail(w, 500, r)
			return true
		}
		return false
	})
	events := NewEvents(server.Config, "router", hclog.NewNullLogger())
	t.Cleanup(events.Close)
	for range 100 {
		events.Warn(rolloutIn("closed"), "Reason", time.Now().String(), "refused")
	}
	events.Warn(rolloutIn("busy"), "Reason", "topic", "taken at the second attempt")
	if got := written(t, server, 1)[0]; got.Namespace != "busy" {
		t.Errorf("Event %+v", got)
	}
	refused := 0
	for _, r := range server.Requests() {
		if r.Namespace == "closed" {
			refused++
		}
	}
	if refused != 100 {
		t.Errorf("%d requests for 100 Events that are refused", refused)
	}
}

// Flush waits for the Events that are not written yet, as long as it may.
func TestFlush(t *testing.T) {
	server := apiservertest.New(t)
	events := NewEvents(server.Config, "step", hclog.NewNullLogger())
	t.Cleanup(events.Close)
	for range 20 {
		events.Note(rolloutIn("demo"), "Reason", "the process ends")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events.Flush(ctx)
	if n := len(server.Events()); n != 20 {
		t.Errorf("%d Events are written, want 20", n)
	}
	unreachable := NewEvents(func() (*rest.Config, error) { return nil, errors.New("no cluster") }, "step", hclog.NewNullLogger())
	t.Cleanup(unreachable.Close)
	unreachable.Note(rolloutIn("demo"), "Reason", "the process ends")
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	unreachable.Flush(ctx)
}

// A namespace whose Events hang has its share of the queue and of the time, no more.
func TestANamespaceWhoseEventsHangHoldsUpNoOther(t *testing.T) {
	server := apiservertest.New(t)
	hung, end := make(chan struct{}, 1000), make(chan struct{})
	defer close(end)
	server.SetFault(func(_ http.ResponseWriter, req *http.Request, r apiservertest.Request) bool {
		if r.Verb != "create" || r.Namespace != "hangs" {
			return false
		}
		hung <- struct{}{}
		select {
		case <-end:
		case <-req.Context().Done():
		}
		return true
	})
	events := NewEvents(server.Config, "router", hclog.NewNullLogger())
	t.Cleanup(events.Close)
	for range 2 * queuedEvents {
		events.Note(rolloutIn("hangs"), "Reason", "hangs")
	}
	<-hung
	began := time.Now()
	events.Note(rolloutIn("demo"), "Reason", "written at once")
	if got := written(t, server, 1)[0]; got.Namespace != "demo" || time.Since(began) > eventTimeout/2 {
		t.Errorf("Event %q after %s", got.Message, time.Since(began))
	}
}

// Which warnings have been written is not kept for a Rollout that is gone.
func TestWarningsGoWithTheirRollout(t *testing.T) {
	events := NewEvents(func() (*rest.Config, error) { return nil, rest.ErrNotInCluster }, "router", hclog.NewNullLogger())
	defer events.Close()
	route := rolloutIn("demo")
	route.Kind = "HTTPRoute"
	for _, about := range []*corev1.ObjectReference{rolloutIn("demo"), rolloutIn("other"), route} {
		events.Warn(about, "Reason", "topic", "a warning")
	}
	events.Prune(func(rollout types.NamespacedName) bool {
		return rollout == types.NamespacedName{Namespace: "demo", Name: "app"}
	})
	events.mu.Lock()
	defer events.mu.Unlock()
	if len(events.told) != 2 {
		t.Errorf("kept: %v", events.told)
	}
}
