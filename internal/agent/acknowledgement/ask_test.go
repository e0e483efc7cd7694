package acknowledgement

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/acknowledged"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const split = "- service: web\n  weight: 1\n"

// web is the object as the API server has it.
func web() *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", Generation: 3, Annotations: map[string]string{weightedbackends.Annotation: split},
	}}
}

// An object counts once all pods have it as it is.
func TestBy(t *testing.T) {
	has := acknowledged.Object{Name: "web", UID: "u", Generation: 3, Split: split}
	changed := func(change func(*acknowledged.Object)) acknowledged.Object {
		o := has
		change(&o)
		return o
	}
	answer := func(o acknowledged.Object, proxies ...acknowledged.Proxy) acknowledged.Answer {
		return acknowledged.Answer{Objects: []acknowledged.Object{{Name: "a"}, o}, Proxies: proxies}
	}
	one, other := acknowledged.Proxy{Pod: "shop/1"}, acknowledged.Proxy{Pod: "shop/2"}
	behind := acknowledged.Proxy{Pod: "shop/2", Behind: []string{"web"}}
	for name, test := range map[string]struct {
		answers []acknowledged.Answer
		want    string
	}{
		"one interceptor":                        {[]acknowledged.Answer{answer(has, one, other)}, ""},
		"a pod at each":                          {[]acknowledged.Answer{answer(has, one), answer(has, other)}, ""},
		"behind with another":                    {[]acknowledged.Answer{answer(has, one, acknowledged.Proxy{Pod: "shop/2", Behind: []string{"a"}})}, ""},
		"an interceptor without a pod is behind": {[]acknowledged.Answer{answer(has, one, other), answer(acknowledged.Object{Name: "b"})}, ""},
		"none":                                   {nil, "shop/1 is connected to no interceptor that counts; because"},
		"a pod is missing":                       {[]acknowledged.Answer{answer(has, one)}, "shop/2 is connected to no interceptor that counts; because"},
		"a pod is behind":                        {[]acknowledged.Answer{answer(has, one, behind)}, "shop/2 has not acknowledged it as it is yet"},
		"at another":                             {[]acknowledged.Answer{answer(has, one, other), answer(has, behind)}, "shop/2 has not acknowledged it as it is yet"},
		"a pod's problem":                        {[]acknowledged.Answer{answer(has, one, acknowledged.Proxy{Pod: "shop/2", Problem: "no routes"})}, "shop/2 is not configured yet: no routes"},
		"no object":                              {[]acknowledged.Answer{answer(acknowledged.Object{Name: "b"}, one, other)}, "do not have it yet"},
		"an earlier object":                      {[]acknowledged.Answer{answer(changed(func(o *acknowledged.Object) { o.UID = "v" }), one, other)}, "do not have it yet"},
		"another spec":                           {[]acknowledged.Answer{answer(changed(func(o *acknowledged.Object) { o.Generation = 2 }), one, other)}, "do not have it as it is yet"},
		"another split":                          {[]acknowledged.Answer{answer(changed(func(o *acknowledged.Object) { o.Split = "" }), one, other)}, "do not have it as it is yet"},
		"its problem":                            {[]acknowledged.Answer{answer(changed(func(o *acknowledged.Object) { o.Problem = "OverBudget: x" }), one, other)}, "do not serve it as it is: OverBudget: x"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Answers{answers: test.answers, missing: []string{"because"}}
			err := a.By([]string{"shop/1", "shop/2"}, web())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// endpointSlices answers a List with EndpointSlices.
type endpointSlices struct {
	client.Reader
	items []discoveryv1.EndpointSlice
}

func (s endpointSlices) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*discoveryv1.EndpointSliceList).Items = s.items
	return nil
}

// An interceptor that has lost the API server, fails, or says half of it, does not count, and
// the others do.
func TestAsk(t *testing.T) {
	const all = `{"objects":[{"name":"web","uid":"u","generation":3,"split":%q}],"proxies":[{"pod":"shop/1"}]}`
	full := fmt.Sprintf(all, split)
	for name, test := range map[string]struct {
		status  int
		answer  string
		problem string
	}{
		"answers":             {http.StatusOK, full, ""},
		"lost the API server": {http.StatusOK, strings.Replace(full, "{", `{"apiServer":"it is lost",`, 1), "does not count: it is lost"},
		"is older":            {http.StatusNotFound, "", "it answers 404"},
		"ends early":          {http.StatusOK, full[:len(full)-2], "unexpected EOF"},
		"is another program":  {http.StatusOK, "hello", "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.answer))
			}))
			defer server.Close()
			host, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			no := false
			a := Asker{Port: uint16(number), Reader: endpointSlices{items: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{host}},
				{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
			}}}}}
			answers, err := a.Ask(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			if asked != "/acknowledged/shop" {
				t.Errorf("it asks for %s", asked)
			}
			err = answers.By([]string{"shop/1"}, web())
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("got %v, want %q", err, test.problem)
			}
		})
	}
}

// One that does not answer holds the others up for two seconds, and not more.
func TestAskDoesNotWaitForever(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	a := Asker{Port: uint16(listener.Addr().(*net.TCPAddr).Port), Reader: endpointSlices{items: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}}}}}}
	start := time.Now()
	answers, err := a.Ask(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := answers.By([]string{"shop/1"}, web()); err == nil || !strings.Contains(err.Error(), "127.0.0.1 does not count") {
		t.Errorf("got %v", err)
	}
}

// What is wrong with an interceptor is said in the same words each time: it is written into
// objects, and they are looked at once a second.
func TestAskSaysTheSameAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = connection.(*net.TCPConn).SetLinger(0) // so that it is reset
		_ = connection.Close()
	}))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	a := Asker{Port: uint16(address.Port), Reader: endpointSlices{items: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.IP.String()}}}}}}}
	var said []string
	for range 2 {
		answers, err := a.Ask(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, answers.By([]string{"shop/1"}, web()).Error())
	}
	if said[0] != said[1] || !strings.Contains(said[0], "reset by peer") {
		t.Errorf("it says %q, and then %q", said[0], said[1])
	}
}

// A pod with two address families is one, and a Service without ready pods has none.
func TestReadyEndpoints(t *testing.T) {
	no := false
	pod := func(name, address string, ready *bool) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: name}
		return e
	}
	reader := endpointSlices{items: []discoveryv1.EndpointSlice{
		{Endpoints: []discoveryv1.Endpoint{pod("1", "10.0.0.1", nil), pod("2", "10.0.0.2", &no), {}}},
		{Endpoints: []discoveryv1.Endpoint{pod("1", "fd00::1", nil), pod("3", "fd00::3", nil)}},
	}}
	ready, err := ReadyEndpoints(t.Context(), reader, client.ObjectKey{Namespace: "shop", Name: "kedify-proxy"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range ready {
		names = append(names, e.TargetRef.Name)
	}
	if got := strings.Join(names, " "); got != "1 3" {
		t.Errorf("ready are %s, want 1 and 3", got)
	}
}
