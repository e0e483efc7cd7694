package kube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

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
