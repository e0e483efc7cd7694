package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
)

// problems returns the problems of the table and one that the table does not know, in
// reverse order.
func (w *world) problems() []routes.Problem {
	problems := append(w.proxy.Table().Problems(), routes.Problem{
		Object: types.NamespacedName{Namespace: "demo", Name: "app"}, Reason: "RefusedByEnvoy", Message: "Envoy refuses it",
	})
	slices.Reverse(problems)
	return problems
}

func (w *world) admin(path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	w.proxy.Admin(w.problems, func() error { return w.unhealthy }).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder
}

func TestProbes(t *testing.T) {
	w := newWorld(t)
	check := func(when string, ready int) {
		t.Helper()
		if got := w.admin("/healthz").Code; got != http.StatusOK {
			t.Errorf("%s: /healthz is %d", when, got)
		}
		if got := w.admin("/readyz").Code; got != ready {
			t.Errorf("%s: /readyz is %d, want %d", when, got, ready)
		}
	}
	check("at start", http.StatusServiceUnavailable)
	w.unhealthy = errors.New("it is stuck")
	if got := w.admin("/healthz"); got.Code != http.StatusInternalServerError || got.Body.String() != "it is stuck\n" {
		t.Errorf("/healthz is %d %q while something is wrong", got.Code, got.Body)
	}
	w.unhealthy = nil
	w.service("stable", "", w.app(named("ok")))
	w.object("")
	w.commit()
	check("with a table", http.StatusOK)
	if res, _ := w.get("/"); res.Close {
		t.Error("the connection ends before there is a drain")
	}
	leaves := func(when string) {
		t.Helper()
		check(when, http.StatusServiceUnavailable)
		if res, body := w.get("/"); body != "ok" || !res.Close {
			t.Errorf("%s: %q, and the connection ends: %v; want an answer and the end", when, body, res.Close)
		}
	}
	w.proxy.SetWithdrawn(true)
	leaves("while it is withdrawn")
	w.proxy.SetWithdrawn(false)
	check("after a withdrawal", http.StatusOK)
	if res, _ := w.get("/"); res.Close {
		t.Error("the connection ends after a withdrawal")
	}
	w.proxy.Drain()
	leaves("while it drains")
	if res, err := h2cClient(t).Do(w.request(http.MethodGet, "/", nil)); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("h2c: %v", err)
	} else {
		_ = res.Body.Close()
	}
}

func TestRouteList(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", "10.0.0.1:8080", "10.0.0.2:8080")
	w.service("canary", "kubernetes.io/h2c", "10.0.0.3:8080")
	check := func(want ...string) {
		t.Helper()
		w.commit()
		var list RouteList
		if err := json.Unmarshal(w.admin("/debug/routes").Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := list.Print(&text); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(text.String()) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	w.object("stable=3 canary=1")
	check(
		"NAMESPACE HTTPSO HOSTS PATHS ROLLOUT SERVICE WEIGHT SHARE READY PROTOCOL",
		"demo app app.test / - stable 3 75 % 2 http/1.1",
		"canary 1 25 % 1 h2c",
		"demo/app: RefusedByEnvoy: Envoy refuses it",
	)
	w.object("stable=3 canary=1", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Headers = []httpv1alpha1.Header{{Name: "X-Tester", Value: "yes"}, {Name: "x-any"}}
		spec.PathPrefixes = []string{"/cart"}
	})
	check(
		"NAMESPACE HTTPSO HOSTS PATHS HEADERS ROLLOUT SERVICE WEIGHT SHARE READY PROTOCOL",
		"demo app app.test /cart x-tester=...,x-any - stable 3 75 % 2 http/1.1",
		"canary 1 25 % 1 h2c",
		"demo/app: RefusedByEnvoy: Envoy refuses it",
	)
	w.object("stable=0")
	check(
		"NAMESPACE HTTPSO HOSTS PATHS ROLLOUT SERVICE WEIGHT SHARE READY PROTOCOL",
		"demo app app.test / - stable 3 75 % 2 http/1.1",
		"canary 1 25 % 1 h2c",
		"demo/app: InvalidSplit: metadata.annotations[http.kedify.io/weighted-backends]: the weights add up to 0; the last good split goes on serving: stable=3,canary=1",
		"demo/app: RefusedByEnvoy: Envoy refuses it",
	)
}

// largest records the size of the largest Write.
type largest struct {
	*httptest.ResponseRecorder
	bytes int
}

func (l *largest) Write(b []byte) (int, error) {
	l.bytes = max(l.bytes, len(b))
	return l.ResponseRecorder.Write(b)
}

// The list reads as if one json.Encoder had written it, but no more than one route of
// it is in memory at a time.
func TestTheRouteListIsWrittenRouteByRoute(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", "10.0.0.1:8080")
	w.object("<&>=1")
	check := func(parts int, problems func() []routes.Problem) {
		t.Helper()
		w.commit()
		got := &largest{ResponseRecorder: httptest.NewRecorder()}
		w.proxy.Admin(problems, func() error { return nil }).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/debug/routes", nil))
		var list RouteList
		if err := json.Unmarshal(got.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		encoder := json.NewEncoder(&want)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.Body.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got.bytes > got.Body.Len()/parts {
			t.Errorf("%d of %d bytes were written at once", got.bytes, got.Body.Len())
		}
	}
	none := func() []routes.Problem { return nil }
	check(1, none)
	w.object("")
	check(1, none)
	check(2, func() []routes.Problem {
		return slices.Repeat([]routes.Problem{{Object: types.NamespacedName{Namespace: "demo", Name: "app"}, Reason: "A", Message: "<b>"}}, 100)
	})
}

// A header's value may be a secret that lets only clients that know it reach a version.
func TestTheRouteListShowsNoValuesOfHeaders(t *testing.T) {
	w := newWorld(t)
	w.service("stable", "", "10.0.0.1:8080")
	w.object("", func(spec *httpv1alpha1.HTTPScaledObjectSpec) {
		spec.Headers = []httpv1alpha1.Header{{Name: "X-Key", Value: "s3cret"}, {Name: "x-key", Value: "s3cret"}, {Name: "x-any"}}
	})
	w.commit()
	body := w.admin("/debug/routes").Body.String()
	if strings.Contains(body, "s3cret") || !strings.Contains(body, `"x-key"`) || !strings.Contains(body, string(routes.Repeated)) {
		t.Errorf("want the names of headers, the problem of one that is there twice, and no value:\n%s", body)
	}
}
