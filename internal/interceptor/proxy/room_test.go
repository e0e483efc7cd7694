package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// cold makes HTTPScaledObjects, each <namespace>/<name> and for the host
// <name>.<namespace>, whose Services have no endpoint.
func (w *world) cold(objects ...string) {
	w.t.Helper()
	port := int32(80)
	for _, object := range objects {
		name, ok := parseObject(object)
		if !ok {
			w.t.Fatal(object)
		}
		w.builder.SetService(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: port}}},
		})
		w.builder.SetHTTPScaledObject(&httpv1alpha1.HTTPScaledObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: types.UID(object)},
			Spec: httpv1alpha1.HTTPScaledObjectSpec{
				Hosts:          []string{name.Name + "." + name.Namespace},
				ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: name.Name, Port: &port},
			},
		})
	}
	w.commit()
}

// warm gives an object that cold made an endpoint.
func (w *world) warm(object, address string) {
	w.t.Helper()
	name, _ := parseObject(object)
	at, port := netip.MustParseAddrPort(address), "http"
	target := int32(at.Port())
	w.builder.SetEndpointSlice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{discoveryv1.LabelServiceName: name.Name},
		},
		Ports:     []discoveryv1.EndpointPort{{Name: &port, Port: &target}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
	})
	w.commit()
}

// heldFor returns how many requests wait for an object that cold made.
func (w *world) heldFor(object string) int {
	name, _ := parseObject(object)
	return int(value(w.t, w.proxy, "interceptor_requests_held", name.Namespace, name.Name))
}

// asked is a request in the background; its answer comes on the channel.
type asked <-chan string

// ask sends a request to the host of an object that cold made, with an additional
// header of so many bytes.
func (w *world) ask(client *http.Client, object string, header int) asked {
	w.t.Helper()
	name, _ := parseObject(object)
	r := w.request(http.MethodGet, "/", nil)
	r.Host = name.Name + "." + name.Namespace
	if header > 0 {
		r.Header.Set("X-Large", strings.Repeat("x", header))
	}
	return w.inBackground(client, r)
}

// inBackground sends a request; its answer is the status, Retry-After and the body.
func (w *world) inBackground(client *http.Client, r *http.Request) asked {
	answer := make(chan string, 1)
	go func() {
		res, err := client.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("Retry-After"), " ", string(body))
	}()
	return answer
}

// filled makes so many requests wait for each of these objects.
func (w *world) filled(client *http.Client, each, header int, objects ...string) (answers []asked) {
	w.t.Helper()
	for _, object := range objects {
		for i := range each {
			answers = append(answers, w.ask(client, object, header))
			eventually(w.t, fmt.Sprint(i+1, " requests for ", object, " wait"), func() bool { return w.heldFor(object) == i+1 })
		}
	}
	return answers
}

// Busy applications that never start do not keep another one from its cold start.
func TestFiveBusyObjectsLeaveRoomForASixth(t *testing.T) {
	const large = 16 << 10
	rooms := map[string]struct {
		change func(*Settings)
		header int
	}{
		"requests": {func(s *Settings) { s.MaxHeld, s.MaxHeldPerRoute = 10, 2 }, 0},
		"bytes":    {func(s *Settings) { s.MaxHeldBytes = 10*(heldRequest+large) + large }, large},
	}
	objects := map[string][]string{
		"of other namespaces":   {"a/app", "b/app", "c/app", "d/app", "e/app", "sixth/app"},
		"of the same namespace": {"demo/a", "demo/b", "demo/c", "demo/d", "demo/e", "demo/sixth"},
		"of one other":          {"busy/a", "busy/b", "busy/c", "busy/d", "busy/e", "sixth/app"},
	}
	for room, settings := range rooms {
		for whose, names := range objects {
			for _, fallback := range []bool{false, true} {
				t.Run(fmt.Sprint(room, " taken by objects ", whose, ", fallback ", fallback), func(t *testing.T) {
					w := newWorld(t, settings.change)
					busy, sixth := names[:5], names[5]
					w.cold(names...)
					client := w.client
					if fallback {
						client = w.fromEnvoy(w.serveFallback(), sixth, false)
					}
					answers := w.filled(w.client, 2, settings.header, busy...)
					first := w.ask(client, sixth, settings.header)
					eventually(t, "the request for the sixth waits", func() bool { return w.heldFor(sixth) == 1 })
					if got := w.held(); got != 10 {
						t.Errorf("%d wait, want 10", got)
					}
					// One request was turned away for it, and is answered 503.
					eventually(t, "a request of another is sent away", func() bool {
						waiting := 0
						for _, object := range busy {
							waiting += w.heldFor(object)
						}
						return waiting == 9
					})
					sent := 0
					for i, answer := range answers {
						if object := busy[i/2]; w.heldFor(object) < 2 && i%2 == 1 {
							if got := <-answer; !strings.HasPrefix(got, "503 5 ") || !strings.Contains(got, object) {
								t.Errorf("the newest request for %s was answered %q, want 503 with Retry-After", object, got)
							}
							if name, _ := parseObject(object); value(t, w.proxy, "interceptor_cold_starts_total", name.Namespace, name.Name, "overflow") != 1 {
								t.Errorf("%s has no overflow counted", object)
							}
							sent++
						}
					}
					if sent != 1 {
						t.Errorf("%d were sent away, want 1", sent)
					}
					w.warm(sixth, w.app(named("here")))
					if got := <-first; !strings.HasSuffix(got, "here") {
						t.Errorf("the sixth was answered %q", got)
					}
				})
			}
		}
	}
}
