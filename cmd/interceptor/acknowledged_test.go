package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// acknowledged returns what a replica answers for namespace demo.
func (r *replica) acknowledged() (acknowledged.Answer, error) {
	var a acknowledged.Answer
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d", r.o.AdminPort) + strings.ReplaceAll(acknowledged.Path, "{namespace}", "demo"))
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	return a, json.NewDecoder(response.Body).Decode(&a)
}

// An interceptor tells which kedify-proxies have an HTTPScaledObject as it is at the API
// server, while it sees the API server.
func TestAcknowledgedByARunningInterceptor(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	const pod = "demo/kedify-proxy-0"
	r.startEnvoy(r.service, "--config-yaml", fmt.Sprintf("node: {metadata: {%s: [demo], %s: %s}}", envoy.NamespacesKey, envoy.PodKey, pod))
	r.eventually("canary in use", func() error { return r.gets(r.proxyPort, "canary") })
	uid, generation := types.UID("anew"), int64(0)
	has := func(split string) func() error {
		return func() error {
			a, err := r.a.acknowledged()
			if err == nil && (a.APIServer != "" || len(a.Objects) != 1 || a.Objects[0] != acknowledged.Object{Name: "app", UID: string(uid), Generation: generation, Split: split} ||
				len(a.Proxies) != 1 || a.Proxies[0].Pod != pod || a.Proxies[0].Problem != "" || len(a.Proxies[0].Behind) > 0) {
				err = fmt.Errorf("it answers %+v", a)
			}
			return err
		}
	}
	put := func(change func(*httpv1alpha1.HTTPScaledObject), split ...weightedbackends.Backend) func() error {
		port := int32(80)
		o := &httpv1alpha1.HTTPScaledObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app", UID: uid},
			Spec:       httpv1alpha1.HTTPScaledObjectSpec{Hosts: []string{"app.example.com"}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port}},
		}
		text := ""
		if len(split) > 0 {
			text = weightedbackends.Format(split)
			o.Annotations = map[string]string{weightedbackends.Annotation: text}
		}
		generation++
		o.Generation = generation
		change(o)
		r.api.PutObject("httpscaledobjects", o)
		return has(text)
	}
	same := func(*httpv1alpha1.HTTPScaledObject) {}
	canary := []weightedbackends.Backend{{Service: "stable", Weight: 0}, {Service: "canary", Weight: 1}}
	for _, tt := range []struct {
		change func(*httpv1alpha1.HTTPScaledObject)
		split  []weightedbackends.Backend
		want   string
	}{
		{same, nil, "stable"},
		{same, canary, "canary"},
		{same, canary, "canary"}, // only the generation changes
		// It is deleted, and has a finalizer.
		{func(o *httpv1alpha1.HTTPScaledObject) {
			now := metav1.Now()
			o.DeletionTimestamp, o.Finalizers = &now, []string{"example.com/wait"}
		}, canary, "canary"},
		{same, nil, "stable"},
	} {
		r.eventually("all acknowledged", put(tt.change, tt.split...))
		// Envoy's workers get what its main thread has acknowledged a moment later.
		r.eventually("it serves that", func() error { return r.gets(r.proxyPort, tt.want) })
	}

	if a, err := r.b.acknowledged(); err != nil || a.APIServer != "" || len(a.Objects) != 1 || len(a.Proxies) != 0 {
		t.Errorf("the other interceptor answers %+v (%v)", a, err)
	}
	for _, is := range []*replica{r.a, r.b} {
		is.set(silent)
	}
	r.eventually("the API server not seen", func() error {
		for _, is := range []*replica{r.a, r.b} {
			a, err := is.acknowledged()
			if err == nil && !strings.HasPrefix(a.APIServer, "the API server has not been seen since ") {
				err = fmt.Errorf("it answers %+v", a)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/acknowledged/", r.a.o.AdminPort))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("without a namespace: %s", response.Status)
	}
}
