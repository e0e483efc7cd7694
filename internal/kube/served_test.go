package kube_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// Served finds a kind in the version that is asked for, of the core group too.
func TestServed(t *testing.T) {
	server := apiservertest.New(t)
	server.Serve("example.com",
		apiservertest.Version{Name: "v1", Kinds: map[string]string{"Test": "testen"}, Cluster: map[string]string{"Zone": "zones"}},
		apiservertest.Version{Name: "v1beta1", Kinds: map[string]string{"Old": "olds"}})
	server.Serve("core", apiservertest.Version{Name: "v1", Kinds: map[string]string{"ConfigMap": "configmaps"}})
	objects := kube.NewObjects(server.Config)
	for _, tt := range []struct {
		group, version, kind, resource string
		namespaced                     bool
	}{
		{"example.com", "v1", "Test", "testen", true},
		{"example.com", "v1", "Zone", "zones", false},
		{"example.com", "v1", "Old", "", false},
		{"example.com", "v2", "Test", "", false},
		{"other.example.com", "v1", "Test", "", false},
		{"", "v1", "ConfigMap", "configmaps", true},
		{"", "v1", "Test", "", false},
	} {
		of := schema.GroupVersionKind{Group: tt.group, Version: tt.version, Kind: tt.kind}
		got, namespaced, err := objects.Served(t.Context(), of)
		if tt.resource == "" {
			if !errors.As(err, new(*kube.NotServedError)) || !strings.Contains(err.Error(), of.GroupVersion().String()) {
				t.Errorf("%s: %v", of, err)
			}
			continue
		}
		if want := of.GroupVersion().WithResource(tt.resource); err != nil || got != want || namespaced != tt.namespaced {
			t.Errorf("%s: %s, %v, %v", of, got, namespaced, err)
		}
	}
	for kind, want := range map[string]string{"Test": "v1 testen", "Old": "v1beta1 olds", "None": ""} {
		got, err := objects.ServedInAny(t.Context(), schema.GroupKind{Group: "example.com", Kind: kind})
		if is := strings.TrimSpace(got.Version + " " + got.Resource); is != want || (want == "") != errors.As(err, new(*kube.NotServedError)) {
			t.Errorf("%s in any version: %q, %v", kind, is, err)
		}
	}
	server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
		apiservertest.Fail(w, http.StatusServiceUnavailable, r)
		return true
	})
	if _, _, err := objects.Served(t.Context(), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Test"}); err == nil || errors.As(err, new(*kube.NotServedError)) {
		t.Errorf("a server that does not say: %v", err)
	}
}

// An answer that no object of Kubernetes is as large as is not kept.
func TestGetIsBounded(t *testing.T) {
	server := apiservertest.New(t)
	objects := kube.NewObjects(server.Config)
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for size, fits := range map[int]bool{1 << 20: true, 5 << 20: false} {
		object := corev1.ConfigMap{Data: map[string]string{"large": strings.Repeat("x", size)}}
		object.Namespace, object.Name = "demo", "a"
		server.PutObject("configmaps", object)
		var got corev1.ConfigMap
		err := objects.Get(t.Context(), maps, "demo", "a", &got)
		if fits != (err == nil) || !fits && !strings.Contains(err.Error(), "more than 4 MiB") || fits && len(got.Data["large"]) != size {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := objects.Get(t.Context(), maps, "demo", "none", &corev1.ConfigMap{}); !apierrors.IsNotFound(err) || kube.IsPathUnknown(err) {
		t.Errorf("an object that is not there: %v", err)
	}
	server.Serve("example.com", apiservertest.Version{Name: "v1", Kinds: map[string]string{"Other": "others"}})
	if err := objects.Get(t.Context(), schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "tests"}, "demo", "a", &corev1.ConfigMap{}); !kube.IsPathUnknown(err) {
		t.Errorf("a resource that is not there: %v", err)
	}
}
