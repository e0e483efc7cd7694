package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	eventrecord "k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/events"
)

const wiredText = `[{"host":"a.test","path":"/","pathType":"Prefix","service":"web","port":{"number":80},"object":"web"}]`

// cluster is the namespace shop, with an API server that may refuse patches.
type cluster struct {
	client.Client
	*reconciler
	events *eventrecord.FakeRecorder
	at     time.Time
	writes int
}

func newCluster(t testing.TB, refuse func(client.Object, []byte) error, objects ...client.Object) *cluster {
	scheme, err := agent.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		o.SetResourceVersion("")
	}
	s := &cluster{at: time.Unix(1, 0), events: eventrecord.NewFakeRecorder(5000)}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			s.writes++
			text, err := patch.Data(o)
			if err == nil && refuse != nil {
				err = refuse(o, text)
			}
			if err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	s.reconciler = &reconciler{
		Client: s.Client, ownIngresses: true, reporter: events.NewReporter(s.events),
		now: func() time.Time { return s.at }, namespaces: make(map[string]*memory),
	}
	return s
}

func (s *cluster) reconcile() (reconcile.Result, error) {
	return s.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shop"}})
}

// backends returns those of the user's Ingress.
func (s *cluster) backends(t *testing.T) (all []string) {
	t.Helper()
	var i networkingv1.Ingress
	if err := s.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, &i); err != nil {
		t.Fatal(err)
	}
	for _, r := range i.Spec.Rules {
		all = append(all, backendText(r.HTTP.Paths[0].Backend.Service))
	}
	return all
}

func (s *cluster) Get(ctx context.Context, key client.ObjectKey, o client.Object) error {
	return s.Client.Get(ctx, key, o)
}

var errRefused = apierrors.NewForbidden(networkingv1.Resource("ingresses"), "kedify-agent", errors.New("exceeded quota"))

// A path is put back also where the agent may have no Ingress of its own.
func TestPutBackWithoutOwnIngress(t *testing.T) {
	i := ingress("nginx", "a.test / Prefix kedify-proxy:8080")
	i.Annotations = map[string]string{agent.WiredPathsAnnotation: wiredText}
	s := newCluster(t, func(o client.Object, _ []byte) error {
		if strings.HasPrefix(o.GetName(), agent.Name) {
			return errRefused
		}
		return nil
	}, i)
	if _, err := s.reconcile(); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want what the API server has against it", err)
	}
	if got := s.backends(t); got[0] != "web:80" {
		t.Errorf("the path points at %s, want web:80", got[0])
	}
	close(s.events.Events)
	var all string
	for event := range s.events.Events {
		all += event
	}
	if !strings.Contains(all, notWritten) || !strings.Contains(all, "exceeded quota") {
		t.Errorf("Events are %q, want one that tells the quota", all)
	}
}

// What others write on the agent's own Ingress is no reason to write it again.
func TestOwnIngressThatOthersChange(t *testing.T) {
	for name, change := range map[string]func(*networkingv1.Ingress){
		"annotation": func(own *networkingv1.Ingress) {
			own.Annotations = map[string]string{"field.cattle.io/publicEndpoints": "[]"}
		},
		"class by default": func(own *networkingv1.Ingress) { class := "nginx"; own.Spec.IngressClassName = &class },
	} {
		t.Run(name, func(t *testing.T) {
			i := ingress("", "a.test / Prefix kedify-proxy:8080")
			i.Spec.IngressClassName = nil
			i.Annotations = map[string]string{agent.WiredPathsAnnotation: wiredText}
			before, err := recordOf(i)
			if err != nil {
				t.Fatal(err)
			}
			own := ownFor(i, backends(before, newDecision()))
			change(own)
			s := newCluster(t, nil, i, own)
			for range 2 {
				if _, err := s.reconcile(); err != nil {
					t.Fatal(err)
				}
				s.at = s.at.Add(settled)
			}
			if got := s.backends(t); got[0] != "web:80" || s.writes != 1 {
				t.Errorf("the path points at %s after %d writes, want web:80 after one", got[0], s.writes)
			}
		})
	}
}

// A write that is refused for what it wires does not keep another path from being put back.
func TestPutBackBesideRefusedWiring(t *testing.T) {
	i := ingress("nginx", "a.test / Prefix kedify-proxy:8080", "b.test / Prefix b:80")
	i.Annotations = map[string]string{agent.WiredPathsAnnotation: wiredText}
	s := newCluster(t, func(_ client.Object, text []byte) error {
		if strings.Contains(string(text), `"value":{"name":"kedify-proxy"`) {
			return errRefused
		}
		return nil
	}, i)
	b := object("b", "b.test", "")
	n := in([]httpv1alpha1.HTTPScaledObject{b}, i)
	var user networkingv1.Ingress
	if err := s.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, &user); err != nil {
		t.Fatal(err)
	}
	before, err := recordOf(&user)
	if err != nil {
		t.Fatal(err)
	}
	m := s.memoryOf("shop")
	own := ownFor(&user, backends(before, n.decide(&user, before, nil)))
	m.seenFor(own, fmt.Sprint(own.Generation), s.at)
	s.at = s.at.Add(settled)
	d, _, err := s.reconcileIngress(t.Context(), m, n, &user, own)
	if got := s.backends(t); got[0] != "web:80" || got[1] != "b:80" || err == nil {
		t.Errorf("paths point at %v, want [web:80 b:80], and an error (%v)", got, err)
	}
	if !strings.Contains(d.notWired["b"], notWritten) {
		t.Errorf("it is said of b: %s; want where to read why", d.notWired["b"])
	}
}

// An annotation cannot say of hundreds of paths what each of them lacks.
func TestManyPathsThatFitInPart(t *testing.T) {
	o := object("web", "a.test", "/x")
	objects := []client.Object{&o}
	for n := range 2000 {
		i := ingress("nginx", "a.test / Prefix web:80")
		i.Name, i.UID = fmt.Sprint("web-", n), types.UID(fmt.Sprint(n))
		objects = append(objects, i)
	}
	s := newCluster(t, nil, objects...)
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	var is httpv1alpha1.HTTPScaledObject
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(&o), &is); err != nil {
		t.Fatal(err)
	}
	if why := is.Annotations[agent.NotWiredAnnotation]; !strings.Contains(why, "stays as it is") || len(why) > mostWhy+10 {
		t.Errorf("%d bytes are said, want %d at most", len(why), mostWhy)
	}
}

// Interceptors are asked each second at first, and at rest seldom, until something changes.
func TestAskAgain(t *testing.T) {
	m, o, at := &memory{waiting: make(map[string]sighting)}, object("web", "a.test", ""), time.Unix(1, 0)
	for _, step := range []struct {
		after, want time.Duration
	}{{0, time.Second}, {10 * time.Second, time.Second}, {30 * time.Second, 3 * time.Second}, {time.Hour, mostAskAgain}} {
		if got := m.askAgain(&o, []string{"shop/1"}, at.Add(step.after)); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
	if got := m.askAgain(&o, []string{"shop/1", "shop/2"}, at.Add(time.Hour)); got != askAgain {
		t.Errorf("with another pod: %v, want %v", got, askAgain)
	}
}
