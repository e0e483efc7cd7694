package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// client-go repeats a request, up to ten times, if the server asks to come back later or
// a read's connection is cut, and waits before each attempt. Here the error has to come
// at once, with what the API server has said.
func TestARequestIsMadeOnce(t *testing.T) {
	resource := schema.GroupVersionResource{Group: gatewayAPI, Version: "v1", Resource: httpRoutes}
	faults := map[string]func(http.ResponseWriter, apiservertest.Request){
		"429, in 30 s": func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.ComeBack(w, 429, 30, r) },
		"503, in 1 s":  func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.ComeBack(w, 503, 1, r) },
		"500":          func(w http.ResponseWriter, r apiservertest.Request) { apiservertest.Fail(w, 500, r) },
		"cut":          func(http.ResponseWriter, apiservertest.Request) { panic(http.ErrAbortHandler) },
	}
	requests := map[string]struct {
		verb string
		make func(context.Context, *kube.Group, *kube.Metadata, *kube.Objects) error
	}{
		"Group.Read": {"get", func(ctx context.Context, g *kube.Group, _ *kube.Metadata, _ *kube.Objects) error {
			_, err := g.Read(ctx, "HTTPRoute", "demo", "app")
			return err
		}},
		"Group.Write": {"patch", func(ctx context.Context, g *kube.Group, _ *kube.Metadata, _ *kube.Objects) error {
			current, err := g.Get(ctx, "HTTPRoute", "demo", "app")
			if err != nil {
				return err
			}
			_, err = g.Write(ctx, current, weigh(current.DeepCopy(), 50))
			return err
		}},
		"Metadata.Read": {"get", func(ctx context.Context, _ *kube.Group, m *kube.Metadata, _ *kube.Objects) error {
			_, err := m.Read(ctx, "demo", "app")
			return err
		}},
		"Metadata.Annotate": {"patch", func(ctx context.Context, _ *kube.Group, m *kube.Metadata, _ *kube.Objects) error {
			value := "b"
			_, err := m.Annotate(ctx, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"}}, map[string]*string{"a": &value})
			return err
		}},
		"Objects.Get": {"get", func(ctx context.Context, _ *kube.Group, _ *kube.Metadata, o *kube.Objects) error {
			return o.Get(ctx, resource, "demo", "app", &unstructured.Unstructured{})
		}},
		"Objects.Create": {"create", func(ctx context.Context, _ *kube.Group, _ *kube.Metadata, o *kube.Objects) error {
			return o.Create(ctx, corev1.SchemeGroupVersion.WithResource("events"), "demo", &corev1.Event{})
		}},
		"Objects.List": {"list", func(ctx context.Context, _ *kube.Group, _ *kube.Metadata, o *kube.Objects) error {
			return o.List(ctx, corev1.SchemeGroupVersion.WithResource("pods"), "demo", kube.Selection{}, &corev1.PodList{})
		}},
		"Objects.Delete": {"delete", func(ctx context.Context, _ *kube.Group, _ *kube.Metadata, o *kube.Objects) error {
			return o.Delete(ctx, corev1.SchemeGroupVersion.WithResource("pods"), "demo", "app", "1")
		}},
		"Objects.Log": {"get", func(ctx context.Context, _ *kube.Group, _ *kube.Metadata, o *kube.Objects) error {
			_, err := o.Log(ctx, "demo", "app", "main", 10, 1000)
			return err
		}},
	}
	for what, request := range requests {
		for fault, answer := range faults {
			t.Run(fmt.Sprintf("%s, %s", what, fault), func(t *testing.T) {
				t.Parallel()
				server := newServer(t)
				server.PutObject(httpRoutes, route("app"))
				group, _ := newGroup(t, server)
				watching(t, group, "HTTPRoute")
				store := kube.NewMetadata(server.Config, kube.MetadataOptions{Resource: resource, Logger: hclog.NewNullLogger()})
				t.Cleanup(store.Close)
				server.SetFault(func(w http.ResponseWriter, _ *http.Request, r apiservertest.Request) bool {
					if r.Verb != request.verb {
						return false
					}
					answer(w, r)
					return true
				})
				verbs(server)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := request.make(ctx, group, store, kube.NewObjects(server.Config))
				if err == nil || ctx.Err() != nil {
					t.Fatalf("error %v, after the time of the call (%v)", err, ctx.Err())
				}
				// net/http repeats a read by itself, at once, if its connection was open
				// before.
				if made := verbs(server)[request.verb]; made != 1 && (made != 2 || fault != "cut") {
					t.Errorf("%d requests, want 1", made)
				}
				after, said := apierrors.SuggestsClientDelay(err)
				if want := map[string]int{"429, in 30 s": 30, "503, in 1 s": 1}[fault]; after != want || said != (want > 0) {
					t.Errorf("the error says %d s (%t), want %d: %v", after, said, want, err)
				}
			})
		}
	}
}
