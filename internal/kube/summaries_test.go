package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// color is the tests' summary of a Rollout.
type color string

func colored(name, value string) any {
	return map[string]any{
		"metadata": metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{"app": name}},
		"spec":     map[string]any{"color": value, "ballast": strings.Repeat("x", 1000)},
	}
}

func newSummaries(t testing.TB, server *apiservertest.Server, change ...func(*kube.SummariesOptions[color])) (*kube.Summaries[color], *logbook) {
	log := &logbook{}
	opts := kube.SummariesOptions[color]{
		Resource: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"},
		Summarize: func(object []byte) color {
			var fields struct {
				Spec struct {
					Color color `json:"color"`
				} `json:"spec"`
			}
			if json.Unmarshal(object, &fields) != nil {
				return "unreadable"
			}
			return fields.Spec.Color
		},
		WithoutWatch: "objects are read one by one",
		Logger:       hclog.New(&hclog.LoggerOptions{Output: log}),
	}
	for _, change := range change {
		change(&opts)
	}
	summaries := kube.NewSummaries(server.Config, opts)
	t.Cleanup(summaries.Close)
	return summaries, log
}

// awaitColor waits until the watch shows a color for an object.
func awaitColor(t *testing.T, summaries *kube.Summaries[color], name string, want color) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := summaries.Get(t.Context(), "demo", name)
		if err == nil && got.Content == want || want == "" && apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v (%v), want %q", name, got, err, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestSummariesComeFromOneWatch(t *testing.T) {
	server := apiservertest.New(t)
	for i := range 250 { // more than a page
		server.PutObject("rollouts", colored(fmt.Sprintf("app-%d", i), "red"))
	}
	summaries, _ := newSummaries(t, server)
	if watching, err := summaries.Await(t.Context()); !watching || err != nil {
		t.Fatal("no watch:", err)
	}
	awaitColor(t, summaries, "app-249", "red")
	server.PutObject("rollouts", colored("app-0", "green"))
	awaitColor(t, summaries, "app-0", "green")
	server.PutObject("rollouts", map[string]any{"metadata": metav1.ObjectMeta{Namespace: "demo", Name: "app-1"}, "spec": "no object"})
	awaitColor(t, summaries, "app-1", "unreadable")
	server.Delete("rollouts", "demo", "app-2")
	awaitColor(t, summaries, "app-2", "")
	server.EndWatches()
	server.PutObject("rollouts", colored("app-3", "blue"))
	awaitColor(t, summaries, "app-3", "blue")

	selector := labels.SelectorFromSet(labels.Set{"app": "app-3"})
	got, ok := summaries.List("demo", selector)
	if !ok || len(got) != 1 || got[0].Name != "app-3" || got[0].UID == "" {
		t.Errorf("List: %v, %v", got, ok)
	}
	if got, ok := summaries.List("other", labels.Everything()); !ok || len(got) != 0 {
		t.Errorf("List of another namespace: %v, %v", got, ok)
	}
	for _, request := range server.Requests() {
		if request.Verb == "get" {
			t.Errorf("%v was made beside the watch", request)
		}
	}
}

func TestSummariesTellOfChanges(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("app", "red"))
	var mu sync.Mutex
	var changes []string
	summaries, _ := newSummaries(t, server, func(opts *kube.SummariesOptions[color]) {
		text := func(s *kube.Summary[color]) string {
			if s == nil {
				return "nothing"
			}
			return s.Name + " " + string(s.Content)
		}
		opts.Changed = func(before, after *kube.Summary[color]) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, text(before)+" -> "+text(after))
		}
	})
	awaitColor(t, summaries, "app", "red")
	if _, err := summaries.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitColor(t, summaries, "app", "red")
	server.PutObject("rollouts", colored("app", "green"))
	awaitColor(t, summaries, "app", "green")
	server.Delete("rollouts", "demo", "app")
	awaitColor(t, summaries, "app", "")
	want := []string{"nothing -> app red", "app red -> app green", "app green -> nothing"}
	deadline := time.Now().Add(time.Minute)
	for {
		mu.Lock()
		got := slices.Clone(changes)
		mu.Unlock()
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(diff)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestSummariesWithoutAWatchAreReadOneByOne(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("app", "red"))
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		if request.Verb == "list" {
			apiservertest.Forbidden(w, request)
		}
		return request.Verb == "list"
	})
	summaries, log := newSummaries(t, server)
	if watching, err := summaries.Await(t.Context()); watching || err != nil {
		t.Fatalf("Await: %v, %v", watching, err)
	}
	if watching, err := summaries.AwaitVersion(t.Context(), "demo", "app", "1"); watching || err != nil {
		t.Fatalf("AwaitVersion: %v, %v", watching, err)
	}
	got, err := summaries.Get(t.Context(), "demo", "app")
	if err != nil || got.Content != "red" {
		t.Errorf("Get: %v, %v", got, err)
	}
	if _, err := summaries.Get(t.Context(), "demo", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of what is not there: %v", err)
	}
	if _, ok := summaries.List("demo", labels.Everything()); ok {
		t.Error("List answered without a watch")
	}
	if log.count("objects are read one by one") != 1 {
		t.Error("the log does not say once what it means that there is no watch")
	}
}

func TestSummariesOfOneNamespace(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("app", "red"))
	summaries, _ := newSummaries(t, server, func(opts *kube.SummariesOptions[color]) { opts.Namespace = "other" })
	if watching, err := summaries.Await(t.Context()); !watching || err != nil {
		t.Fatal("no watch:", err)
	}
	got, err := summaries.Get(t.Context(), "demo", "app")
	if err != nil || got.Content != "red" {
		t.Errorf("Get past the watch: %v, %v", got, err)
	}
	if _, ok := summaries.List("demo", labels.Everything()); ok {
		t.Error("List answered for a namespace that is not watched")
	}
	if watching, err := summaries.AwaitVersion(t.Context(), "demo", "app", "1000"); !watching || err != nil {
		t.Errorf("AwaitVersion of an object that is not watched: %v, %v", watching, err)
	}
}

// A watch that is behind must not be taken for the present state.
func TestSummariesWaitForAVersion(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("app", "red")) // version 1
	summaries, _ := newSummaries(t, server)
	if watching, err := summaries.AwaitVersion(t.Context(), "demo", "app", "1"); !watching || err != nil {
		t.Fatalf("version 1: %v, %v", watching, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if watching, err := summaries.AwaitVersion(short, "demo", "app", "3"); watching || err != nil {
		t.Fatalf("version 3 before it is there: %v, %v", watching, err)
	}
	done := make(chan bool)
	go func() {
		watching, _ := summaries.AwaitVersion(t.Context(), "demo", "app", "3")
		done <- watching
	}()
	server.PutObject("rollouts", colored("other", "green")) // version 2
	server.PutObject("rollouts", colored("app", "blue"))    // version 3
	if !<-done {
		t.Fatal("version 3 was not reached")
	}
	if other, err := summaries.Get(t.Context(), "demo", "other"); err != nil || other.Content != "green" {
		t.Errorf("an earlier change of another object: %v, %v", other, err)
	}
	if watching, err := summaries.AwaitVersion(t.Context(), "demo", "app", ""); !watching || err != nil {
		t.Errorf("without a version: %v, %v", watching, err)
	}
}

func TestSummariesConnectAtTheFirstCallThatCan(t *testing.T) {
	server := apiservertest.New(t)
	server.PutObject("rollouts", colored("app", "red"))
	calls := 0
	summaries := kube.NewSummaries(func() (*rest.Config, error) {
		if calls++; calls == 1 {
			return nil, errors.New("no cluster")
		}
		return server.Config()
	}, kube.SummariesOptions[color]{
		Resource:  schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"},
		Summarize: func([]byte) color { return "seen" },
		Logger:    hclog.NewNullLogger(),
	})
	defer summaries.Close()
	if _, err := summaries.Await(t.Context()); err == nil {
		t.Error("no error without a configuration")
	}
	if watching, err := summaries.Await(t.Context()); !watching || err != nil {
		t.Errorf("the second call: %v, %v", watching, err)
	}
	awaitColor(t, summaries, "app", "seen")
}
