package check

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
)

// apiServer answers from a snapshot as an API server would, in JSON, and records the
// requests.
type apiServer struct {
	*httptest.Server
	// forbidden are the paths (a * at the end stands for the rest) that answer
	// 403.
	forbidden []string
	// denied are the verbs that access reviews answer no to.
	denied []string
	// pods answer requests to a pod through the API server, by "namespace/pod:port".
	pods map[string]http.Handler
	// more are answers besides the snapshot's, by path.
	more map[string]any
	// agents are the Deployments with the agent's label.
	agents []deployment
	// hang makes every answer but that of /version wait for the client to go.
	hang bool

	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, s snapshot) *apiServer {
	t.Helper()
	a := &apiServer{}
	in := func(path string) string { return strings.ReplaceAll(path, "NS", "/namespaces/"+s.namespace) }
	lists := map[string]any{
		in("/apis/argoproj.io/v1alpha1NS/rollouts"):                s.objects.rollouts.Value,
		in("/apis/http.keda.sh/v1alpha1NS/httpscaledobjects"):      s.objects.httpScaledObjects.Value,
		in("/apis/keda.sh/v1alpha1NS/scaledobjects"):               s.objects.scaledObjects.Value,
		in("/api/v1NS/services"):                                   s.objects.services.Value,
		in("/apis/discovery.k8s.io/v1NS/endpointslices"):           s.objects.endpointSlices.Value,
		in("/apis/apps/v1NS/replicasets"):                          s.objects.replicaSets.Value,
		in("/api/v1NS/events"):                                     s.objects.events,
		"/apis/argoproj.io/v1alpha1/namespaces/elsewhere/rollouts": []v1alpha1.Rollout{},
		"/api/v1/namespaces/argo-rollouts/pods":                    s.controller.pods.Value,
		"/apis/apps/v1/namespaces/argo-rollouts/deployments":       s.controller.found.Value,
		"/apis/apps/v1/namespaces/" + s.namespace + "/deployments": []deployment{},
	}
	objects := map[string]any{
		"/api/v1/namespaces/argo-rollouts/configmaps/argo-rollouts-config": s.controller.config.Value,
		"/api/v1/nodes/node-1": s.controller.nodes["node-1"].Value,
	}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked = append(a.asked, r.Method+" "+r.URL.Path)
		a.mu.Unlock()
		if r.URL.Path == "/version" {
			answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.34.4"})
			return
		}
		if a.hang {
			<-r.Context().Done()
			return
		}
		if slices.ContainsFunc(a.forbidden, func(path string) bool {
			prefix, isPrefix := strings.CutSuffix(path, "*")
			return path == r.URL.Path || isPrefix && strings.HasPrefix(r.URL.Path, prefix)
		}) {
			status(w, http.StatusForbidden, "Forbidden", "no")
			return
		}
		if pod, path, proxied := podAsked(r.URL.Path); proxied {
			handler := a.pods[pod]
			if handler == nil {
				status(w, http.StatusServiceUnavailable, "ServiceUnavailable", "error trying to reach service: no route to host")
				return
			}
			r.URL.Path = path
			handler.ServeHTTP(w, r)
			return
		}
		switch {
		case r.Method == http.MethodPost:
			var review accessReview
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = json.Unmarshal(body, &review)
			}
			if err != nil || review.Spec.User == "" || r.Header.Get("Content-Type") != "application/json" {
				status(w, http.StatusBadRequest, "BadRequest", fmt.Sprint("not a review: ", err))
				return
			}
			review.Status.Allowed = !slices.Contains(a.denied, review.Spec.ResourceAttributes.Verb)
			answer(w, http.StatusCreated, review)
		case r.URL.Path == "/apis/apps/v1/deployments":
			found := s.controller.found.Value
			if selector := r.URL.Query().Get("labelSelector"); selector == nameLabel+"="+marks.Agent {
				found = a.agents
			} else if selector != componentLabel+"="+controllerComponent {
				found = nil
			}
			answer(w, http.StatusOK, map[string]any{"items": found})
		case r.URL.Path == in("/api/v1NS/pods"):
			var pods []corev1.Pod
			for _, l := range s.proxies.kedifyProxies.pods {
				pods = append(pods, l.pod.Pod)
			}
			answer(w, http.StatusOK, map[string]any{"items": pods})
		case lists[r.URL.Path] != nil:
			answer(w, http.StatusOK, map[string]any{"items": lists[r.URL.Path]})
		case a.more[r.URL.Path] != nil:
			answer(w, http.StatusOK, a.more[r.URL.Path])
		case objects[r.URL.Path] != nil:
			answer(w, http.StatusOK, objects[r.URL.Path])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// podAsked splits a path .../namespaces/NAMESPACE/pods/POD:PORT/proxy/PATH.
func podAsked(path string) (pod, rest string, proxied bool) {
	path, isPod := strings.CutPrefix(path, "/api/v1/namespaces/")
	path, rest, proxied = strings.Cut(path, "/proxy/")
	namespace, pod, isPods := strings.Cut(path, "/pods/")
	return namespace + "/" + pod, "/" + rest, isPod && isPods && proxied
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

func status(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

func runOn(t *testing.T, a *apiServer, opts Options) Report {
	t.Helper()
	report, err := Run(t.Context(), &rest.Config{Host: a.URL}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// notOK returns "check status" for each result that is not OK.
func notOK(report Report) []string {
	var found []string
	for _, r := range report.Results {
		if r.Status != OK {
			found = append(found, r.Check+" "+r.Status.String())
		}
	}
	return found
}

func TestRunReadsTheCluster(t *testing.T) {
	a := serve(t, healthy())
	report := runOn(t, a, Options{Namespace: "shop"})
	if found := notOK(report); len(found) > 0 {
		t.Errorf("a healthy cluster has %v: %+v", found, report)
	}
	for _, asked := range a.asked {
		if method, path, _ := strings.Cut(asked, " "); method != http.MethodGet && !strings.HasSuffix(path, "accessreviews") {
			t.Errorf("the check changes things: %s", asked)
		}
	}

	a.denied = []string{"patch"}
	if found := notOK(runOn(t, a, Options{Namespace: "shop", Rollout: "demo"})); !slices.Equal(found, []string{"controller-access failure"}) {
		t.Errorf("patch denied: %v", found)
	}
}

func TestRunWithFewRights(t *testing.T) {
	for name, c := range map[string]struct {
		forbidden []string
		want      []string
	}{
		"namespaces of its own, not the whole cluster": {
			[]string{"/apis/apps/v1/deployments", "/api/v1/nodes/*", "/apis/rbac.authorization.k8s.io/*"},
			[]string{"plugin-platform warning"},
		},
		"local access reviews only": {
			[]string{"/apis/authorization.k8s.io/v1/subjectaccessreviews"},
			[]string{"controller-access warning"}, // to list and watch of both kinds, which are cluster-wide
		},
		"nothing but the Rollout": {
			[]string{"/apis/apps/*", "/api/v1/*", "/apis/authorization.k8s.io/*", "/apis/http.keda.sh/*", "/apis/keda.sh/*", "/apis/discovery.k8s.io/*"},
			[]string{"controller-found warning", "plugin-registered warning", "services-exist warning", "httpscaledobject-exists warning", "scaledobject-min-replicas warning"},
		},
		"nothing": {
			[]string{"/apis/*", "/api/*"},
			[]string{"controller-found warning", "plugin-registered warning", "rollout-found warning"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, healthy())
			a.forbidden = c.forbidden
			report := runOn(t, a, Options{Namespace: "shop"})
			if got := notOK(report); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q\n%+v", got, c.want, report)
			}
			if report.Failed() {
				t.Error("what may not be looked at is a failure")
			}
		})
	}
}

// A Rollout that cannot be read keeps nothing else from being checked.
func TestRunWithAnUnreadableRollout(t *testing.T) {
	s := healthy()
	text, err := json.Marshal(s.demo())
	if err != nil {
		t.Fatal(err)
	}
	unreadable := strings.Replace(strings.ReplaceAll(string(text), `"name":"demo"`, `"name":"web"`), `"resources":{}`, `"resources":{"limits":{"cpu":"1x"}}`, 1)
	a := serve(t, s)
	whole := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts" {
			answer(w, http.StatusOK, map[string]any{"items": []json.RawMessage{text, json.RawMessage(unreadable)}})
			return
		}
		whole.ServeHTTP(w, r)
	})
	for rollout, want := range map[string][]string{"": {"rollout-found failure"}, "demo": nil, "web": {"rollout-found failure"}} {
		report := runOn(t, a, Options{Namespace: "shop", Rollout: rollout})
		if found := notOK(report); !slices.Equal(found, want) {
			t.Errorf("Rollout %q: got %q, want %q\n%+v", rollout, found, want, report)
		}
		looked := slices.ContainsFunc(report.Results, func(r Result) bool { return r.Check == "backends-ready" && r.Status == OK })
		if looked == (rollout == "web") {
			t.Errorf("Rollout %q: %+v", rollout, report)
		}
	}
}

func TestRunWithoutCluster(t *testing.T) {
	a := serve(t, healthy())
	a.Close()
	if _, err := Run(t.Context(), &rest.Config{Host: a.URL}, Options{Namespace: "shop"}); err == nil || !strings.Contains(err.Error(), "cannot reach the API server at "+a.URL) {
		t.Errorf("no API server: %v", err)
	}

	unauthorized := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	}))
	defer unauthorized.Close()
	if _, err := Run(t.Context(), &rest.Config{Host: unauthorized.URL}, Options{Namespace: "shop"}); err == nil || !strings.Contains(err.Error(), "does not accept these credentials") {
		t.Errorf("unauthorized: %v", err)
	}

	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			answer(w, http.StatusOK, map[string]string{})
			return
		}
		status(w, http.StatusInternalServerError, "InternalError", "etcdserver: no leader")
	}))
	defer failing.Close()
	if report, err := Run(t.Context(), &rest.Config{Host: failing.URL}, Options{Namespace: "shop"}); err == nil || !strings.Contains(err.Error(), "does not say which Rollouts there are: list rollouts.argoproj.io in namespace shop: etcdserver: no leader") {
		t.Errorf("failing: %v, %+v", err, report)
	}

	hanging := serve(t, healthy())
	hanging.hang = true
	begun := time.Now()
	_, err := Run(t.Context(), &rest.Config{Host: hanging.URL}, Options{Namespace: "shop", Timeout: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("hanging: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a hanging API server held the check for %s", took)
	}

	if _, err := Run(t.Context(), &rest.Config{Host: a.URL}, Options{}); err == nil || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("no namespace: %v", err)
	}
}
