package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// List returns what is selected, and Delete deletes the object only if it has the given
// UID.
func TestObjectsListAndDelete(t *testing.T) {
	server := apiservertest.New(t)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	objects := kube.NewObjects(server.Config)
	put := func(namespace, name, app string) {
		server.PutObject("pods", corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: "n-" + name}})
	}
	put("demo", "a", "x")
	put("demo", "b", "x")
	put("demo", "c", "y")
	put("other", "d", "x")
	for _, tt := range []struct {
		of   kube.Selection
		want string
	}{
		{kube.Selection{}, "[n-a n-b n-c]"},
		{kube.Selection{Labels: "app=x"}, "[n-a n-b]"},
		{kube.Selection{Fields: "spec.nodeName=n-c"}, "[n-c]"},
		{kube.Selection{Labels: "app=x", Limit: 1}, "[n-a]"},
	} {
		var got corev1.PodList
		if err := objects.List(t.Context(), pods, "demo", tt.of, &got); err != nil {
			t.Fatalf("%+v: %v", tt.of, err)
		}
		nodes := []string{}
		for _, pod := range got.Items {
			nodes = append(nodes, pod.Spec.NodeName)
		}
		if fmt.Sprint(nodes) != tt.want {
			t.Errorf("%+v: %v, want %s", tt.of, nodes, tt.want)
		}
	}
	var metadata corev1.PodList // would have the specs, had the API server sent them
	if err := objects.List(t.Context(), pods, "demo", kube.Selection{Labels: "app=y", Metadata: true}, &metadata); err != nil || len(metadata.Items) != 1 || metadata.Items[0].UID != "uid-of-c" || metadata.Items[0].Spec.NodeName != "" {
		t.Errorf("metadata: %v, %v", metadata.Items, err)
	}
	if err := objects.Delete(t.Context(), pods, "demo", "a", "uid-of-one-before"); !apierrors.IsConflict(err) || server.Object("pods", "demo", "a") == nil {
		t.Errorf("another UID: %v", err)
	}
	if err := objects.Delete(t.Context(), pods, "demo", "a", "uid-of-a"); err != nil || server.Object("pods", "demo", "a") != nil {
		t.Errorf("its UID: %v", err)
	}
	if err := objects.Delete(t.Context(), pods, "demo", "a", "uid-of-a"); !apierrors.IsNotFound(err) {
		t.Errorf("deleted before: %v", err)
	}
	server.SetFault(func(w http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
		var options metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil || options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationBackground {
			t.Errorf("options %+v (%v): want pods of a Job to be deleted with it", options, err)
		}
		return false
	})
	if err := objects.Delete(t.Context(), pods, "demo", "b", "uid-of-b"); err != nil {
		t.Error(err)
	}
}

// Log reads no more of a log than was asked for, whatever the server sends.
func TestObjectsLog(t *testing.T) {
	server := apiservertest.New(t)
	objects := kube.NewObjects(server.Config)
	server.SetFault(func(w http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
		if got, want := r.URL.Path+"?"+r.URL.RawQuery, "/api/v1/namespaces/demo/pods/a/log?container=main&limitBytes=12&tailLines=3"; got != want {
			t.Errorf("request %s, want %s", got, want)
		}
		_, _ = io.WriteString(w, "one\ntwo\nthree, which is too long")
		return true
	})
	if text, err := objects.Log(t.Context(), "demo", "a", "main", 3, 12); string(text) != "one\ntwo\nthre" || err != nil {
		t.Errorf("log %q, %v", text, err)
	}
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		apiservertest.Forbidden(w, r)
		return true
	})
	if _, err := objects.Log(t.Context(), "demo", "a", "main", 3, 12); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden: %v", err)
	}
}

func TestObjects(t *testing.T) {
	server := apiservertest.New(t)
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	server.PutObject("secrets", corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a"}, Type: "t", Data: map[string][]byte{"k": []byte("v")}})
	there := false
	objects := kube.NewObjects(func() (*rest.Config, error) {
		if !there {
			return nil, rest.ErrNotInCluster
		}
		return server.Config()
	})
	var got corev1.Secret
	if err := objects.Get(t.Context(), secrets, "demo", "a", &got); !errors.Is(err, rest.ErrNotInCluster) {
		t.Errorf("without a cluster: %v", err)
	}
	there = true
	if err := objects.Get(t.Context(), secrets, "demo", "a", &got); err != nil || got.Type != "t" || string(got.Data["k"]) != "v" || got.Name != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := objects.Get(t.Context(), secrets, "demo", "none", &got); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is not there: %v", err)
	}
	if err := objects.Create(t.Context(), schema.GroupVersionResource{Version: "v1", Resource: "events"}, "demo", corev1.Event{Reason: "Made"}); err != nil {
		t.Error(err)
	}
	if events := server.Events(); len(events) != 1 || events[0].Reason != "Made" {
		t.Errorf("Events %+v", events)
	}
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		apiservertest.Forbidden(w, r)
		return true
	})
	if err := objects.Get(t.Context(), secrets, "demo", "a", &got); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "secrets is forbidden") {
		t.Errorf("forbidden: %v", err)
	}
}
