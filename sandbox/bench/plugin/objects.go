package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// callers is the default number of the controller's workers.
const callers = 10

// api is the sandbox's API server.
type api struct {
	config *rest.Config
	client dynamic.Interface
	http   *http.Client
}

func connect(ctx context.Context, crds ...string) (*api, error) {
	config, client, err := gauge.Connect(ctx, crds...)
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &api{config: config, client: client, http: httpClient}, nil
}

// counted are the resources that the plugins request.
var counted = regexp.MustCompile(`resource="(httpscaledobjects|httproutes|services|rollouts|events)"`)

func name(i int) string { return fmt.Sprintf("shop-frontend-%04d", i) }

// create makes the objects from..to-1 of a subject, and a Rollout for each with a
// number below s.rollouts.
func (a *api) create(ctx context.Context, s subject, from, to int) error {
	return gauge.Each(callers, from, to, func(i int) error {
		if _, err := a.client.Resource(s.resource).Namespace(gauge.Namespace).Create(ctx, s.object(name(i)), metav1.CreateOptions{FieldManager: "agent"}); err != nil {
			return err
		}
		if i < s.rollouts {
			return a.createRollout(ctx, s.rollout(i), i)
		}
		return nil
	})
}

// remove deletes the objects and the Rollouts of a subject.
func (a *api) remove(ctx context.Context, s subject) error {
	for _, resource := range []schema.GroupVersionResource{s.resource, v1alpha1.RolloutGVR} {
		if err := a.client.Resource(resource).Namespace(gauge.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting %s: %w", resource.Resource, err)
		}
	}
	return nil
}

// report gives the first n objects of a subject their status.
func (a *api) report(ctx context.Context, s subject, n int) error {
	if s.status == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": s.status})
	if err != nil {
		return err
	}
	return gauge.Each(callers, 0, n, func(i int) error {
		_, err := a.client.Resource(s.resource).Namespace(gauge.Namespace).Patch(ctx, name(i), types.MergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
}

// createRollout makes the i-th Rollout, as kubectl apply does.
func (a *api) createRollout(ctx context.Context, ro *v1alpha1.Rollout, i int) error {
	applied, err := json.Marshal(ro)
	if err != nil {
		return err
	}
	ro.Annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ro)
	if err != nil {
		return err
	}
	made, err := a.client.Resource(v1alpha1.RolloutGVR).Namespace(gauge.Namespace).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	if err != nil {
		return err
	}
	uids.Store(i, made.GetUID())
	return nil
}

// uids has the UID of each Rollout by its number.
var uids sync.Map

// patch changes one annotation of each of the first n objects, as a client that
// does nothing else would, to find the limit of the API server.
func (a *api) patch(ctx context.Context, s subject, n int, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"bench": value}}})
	if err != nil {
		return err
	}
	return gauge.Each(callers, 0, n, func(i int) error {
		_, err := a.client.Resource(s.resource).Namespace(gauge.Namespace).Patch(ctx, name(i), types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

// requests returns how many requests for counted resources the API server has
// answered, without the watches it ended, by its own count.
func (a *api) requests(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.config.Host+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET /metrics: %s", response.Status)
	}
	total := 0
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_request_total{") || !counted.MatchString(line) || strings.Contains(line, `verb="WATCH"`) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		total += int(value)
	}
	return total, lines.Err()
}

// rollout returns the i-th Rollout with the configuration of a plugin, as the controller
// sends it with each call: the guide's sample.
func rollout(i int, plugins map[string]json.RawMessage) *v1alpha1.Rollout {
	pause := intstr.FromString("30s")
	weight := func(w int32) *int32 { return &w }
	replicas := int32(2)
	uid, _ := uids.Load(i)
	known, _ := uid.(types.UID)
	return &v1alpha1.Rollout{
		TypeMeta: metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name(i), Namespace: gauge.Namespace, UID: known, Generation: 1,
			Annotations: map[string]string{"rollout.argoproj.io/revision": "7"},
		},
		Spec: v1alpha1.RolloutSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name(i)}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name(i)}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "argoproj/rollouts-demo:blue",
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				}}},
			},
			Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
				StableService: name(i) + "-stable", CanaryService: name(i) + "-canary",
				TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: plugins},
				Steps: []v1alpha1.CanaryStep{
					{SetWeight: weight(20)}, {Pause: &v1alpha1.RolloutPause{}},
					{SetWeight: weight(50)}, {Pause: &v1alpha1.RolloutPause{Duration: &pause}},
					{SetWeight: weight(80)}, {Pause: &v1alpha1.RolloutPause{Duration: &pause}},
				},
			}},
		},
	}
}
