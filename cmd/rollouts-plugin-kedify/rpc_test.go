package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/plugintest"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const httpso = "httpscaledobjects"

func rollout(name string) *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: name + "-stable", CanaryService: name + "-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{
				kedify.PluginName: json.RawMessage(fmt.Sprintf(`{"httpScaledObjectName":%q}`, name)),
			}},
		}}},
	}
}

func TestOverRPC(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", map[string]string{"other": "tool"})
	router, stderr := plugintest.Start(t, binary, server.Kubeconfig())
	ro := rollout("app")
	if got := router.Type(); got != "kedify/http" {
		t.Errorf("Type = %q", got)
	}
	for _, weight := range []int32{20, 20, 50, 100, 0, 0} {
		if err := router.UpdateHash(ro, "a", "b", nil); err.HasError() {
			t.Fatalf("UpdateHash: %s", err)
		}
		if err := router.SetWeight(ro, weight, nil); err.HasError() {
			t.Fatalf("SetWeight(%d): %s", weight, err)
		}
		if got, err := router.VerifyWeight(ro, weight, nil); err.HasError() || got != types.Verified {
			t.Fatalf("VerifyWeight(%d) = %v, %v", weight, got, err)
		}
		want := map[string]string{"other": "tool"}
		if weight > 0 {
			want[weightedbackends.Annotation] = fmt.Sprintf("- service: app-stable\n  weight: %d\n- service: app-canary\n  weight: %d\n", 100-weight, weight)
			want[weightedbackends.OwnerAnnotation] = "app"
		}
		if diff := cmp.Diff(want, server.Annotations(httpso, "demo", "app")); diff != "" {
			t.Fatalf("annotations at %d (-want +got):\n%s", weight, diff)
		}
		if err := router.RemoveManagedRoutes(ro); err.HasError() {
			t.Fatalf("RemoveManagedRoutes: %s", err)
		}
	}
	if err := router.SetHeaderRoute(ro, &v1alpha1.SetHeaderRoute{Name: "r", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "x"}}}); !strings.Contains(err.Error(), "not supported") {
		t.Errorf("SetHeaderRoute: %v", err)
	}
	if err := router.SetMirrorRoute(ro, &v1alpha1.SetMirrorRoute{Name: "r"}); err.HasError() {
		t.Errorf("removing a mirror route: %s", err)
	}
	if err := router.SetWeight(rollout("absent"), 20, nil); !strings.Contains(err.Error(), "HTTPScaledObject demo/absent not found") {
		t.Errorf("SetWeight without the object: %v", err)
	}

	// One hclog line for each of the four changes (20, 50, 100, 0).
	plugintest.Eventually(t, "four changes in the log", func() bool { return strings.Count(stderr.String(), "split changed") >= 4 })
	scanner := bufio.NewScanner(strings.NewReader(stderr.String()))
	changes := 0
	for scanner.Scan() {
		var line map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil || line["@level"] == nil || line["@timestamp"] == nil {
			t.Errorf("a line of which the controller loses the level: %s", scanner.Text())
		}
		if line["@message"] == "split changed" {
			changes++
			for _, key := range []string{"rollout", "httpScaledObject", "from", "to", "took"} {
				if line[key] == nil {
					t.Errorf("no %s in %s", key, scanner.Text())
				}
			}
		}
	}
	if changes != 4 {
		t.Errorf("%d lines for 4 changes", changes)
	}
}

func TestTenCallersAtOnce(t *testing.T) {
	server := apiservertest.New(t)
	for i := range 50 {
		server.Put(httpso, "demo", "app"+strconv.Itoa(i), nil)
	}
	router, _ := plugintest.Start(t, binary, server.Kubeconfig())
	work := make(chan int)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for i := range work {
				ro := rollout("app" + strconv.Itoa(i))
				for _, weight := range []int32{20, 50, 0} {
					if err := router.SetWeight(ro, weight, nil); err.HasError() {
						t.Errorf("SetWeight(%d) of %s: %s", weight, ro.Name, err)
					}
					if ok, err := router.VerifyWeight(ro, weight, nil); err.HasError() || ok != types.Verified {
						t.Errorf("VerifyWeight(%d) of %s: %v %v", weight, ro.Name, ok, err)
					}
				}
			}
		})
	}
	for i := range 50 {
		work <- i
	}
	close(work)
	wg.Wait()
}

func TestStartsWithoutAClusterAndServesWhenThereIsOne(t *testing.T) {
	server := apiservertest.New(t)
	server.Put(httpso, "demo", "app", nil)
	address, listen := plugintest.Later(t, server.URL())
	router, _ := plugintest.Start(t, binary, strings.ReplaceAll(server.Kubeconfig(), server.URL(), address))
	ro := rollout("app")
	if err := router.SetWeight(ro, 20, nil); !strings.Contains(err.Error(), "Rollout demo/app") {
		t.Fatalf("SetWeight without a cluster: %v", err)
	}
	if ok, err := router.VerifyWeight(ro, 20, nil); err.HasError() || ok != types.NotVerified {
		t.Fatalf("VerifyWeight without a cluster: %v %v", ok, err)
	}
	listen()
	if err := router.SetWeight(ro, 20, nil); err.HasError() {
		t.Errorf("SetWeight with the cluster there: %s", err)
	}
}

func TestEndsWithTheController(t *testing.T) { plugintest.KillController(t, binary) }
