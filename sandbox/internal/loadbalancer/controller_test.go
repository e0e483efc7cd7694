package loadbalancer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

// bench is a controller that runs against a fake API server, with three addresses.
type bench struct {
	t      *testing.T
	client *fake.Clientset
	events *record.FakeRecorder
}

func start(t *testing.T, objs ...runtime.Object) bench {
	t.Helper()
	b := bench{t: t, client: fake.NewClientset(objs...), events: record.NewFakeRecorder(1000)}
	factory := informers.NewSharedInformerFactory(b.client, 0)
	c, err := New(factory, b.client, netip.MustParsePrefix("10.97.0.0/30"), b.events, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	factory.Start(ctx.Done())
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done; factory.Shutdown() })
	return b
}

// service is a Service of type LoadBalancer; those of later names are younger.
func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func has(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}} }
}

func wants(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

func (b bench) create(s *corev1.Service) {
	b.t.Helper()
	if _, err := b.client.CoreV1().Services("demo").Create(b.t.Context(), s, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) change(name string, f func(*corev1.Service)) {
	b.t.Helper()
	s, err := b.client.CoreV1().Services("demo").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	f(s)
	if _, err := b.client.CoreV1().Services("demo").Update(b.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) delete(name string) {
	b.t.Helper()
	if err := b.client.CoreV1().Services("demo").Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) address(name string) string {
	b.t.Helper()
	s, err := b.client.CoreV1().Services("demo").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		list = append(list, ingress.IP)
	}
	return strings.Join(list, " ")
}

// await polls until a Service's status has the address.
func (b bench) await(name, want string) {
	b.t.Helper()
	b.poll(func() string {
		if got := b.address(name); got != want {
			return fmt.Sprintf("Service %s has %q, want %q", name, got, want)
		}
		return ""
	})
}

// awaitEvent reads Events until one has all the texts.
func (b bench) awaitEvent(texts ...string) {
	b.t.Helper()
	var seen []string
	b.poll(func() string {
		for {
			select {
			case e := <-b.events.Events:
				seen = append(seen, e)
				missing := false
				for _, text := range texts {
					missing = missing || !strings.Contains(e, text)
				}
				if !missing {
					return ""
				}
			default:
				return fmt.Sprintf("no Event with %q in %q", texts, seen)
			}
		}
	})
}

func (b bench) poll(check func() string) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatal(problem)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestAddressesComeAndGoWithServices(t *testing.T) {
	b := start(t, service("a"))
	b.await("a", "10.97.0.1")
	b.awaitEvent("Normal EnsuredLoadBalancer", "10.97.0.1")
	b.create(service("b"))
	b.create(service("c"))
	b.poll(func() string {
		if b.address("b") == "" || b.address("c") == "" || b.address("b") == b.address("c") {
			return fmt.Sprintf("b has %q, c has %q", b.address("b"), b.address("c"))
		}
		return ""
	})
	// The range is used up; the next Service that is deleted frees its address.
	b.create(service("d"))
	b.awaitEvent("Warning LoadBalancerAddress", "all of 10.97.0.0/30", "are in use", "delete another Service")
	b.delete("a")
	b.await("d", "10.97.0.1")
	// A Service that becomes another type gives its address back.
	b.create(service("e"))
	b.awaitEvent("Warning LoadBalancerAddress")
	b.change("d", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	b.await("d", "")
	b.await("e", "10.97.0.1")
}

func TestAddressesOutliveTheController(t *testing.T) {
	b := start(t, service("a"), service("b", has("10.97.0.1")), service("c", has("10.97.0.1")), service("d", has("192.0.2.1")))
	b.await("a", "10.97.0.2")
	b.await("b", "10.97.0.1")
	// A Service gets another address if another Service has the same, or if it is not
	// in the range.
	b.poll(func() string {
		if c := b.address("c"); c != "10.97.0.3" && b.address("d") != "10.97.0.3" {
			return fmt.Sprintf("c has %q, d has %q, want one of them to have 10.97.0.3", c, b.address("d"))
		}
		return ""
	})
}

func TestRequestedAddress(t *testing.T) {
	b := start(t, service("a", wants("10.97.0.3")))
	b.await("a", "10.97.0.3")
	b.create(service("b", wants("10.97.0.3")))
	b.awaitEvent("spec.loadBalancerIP 10.97.0.3", "another Service has it")
	b.create(service("c", wants("192.0.2.1")))
	b.awaitEvent("spec.loadBalancerIP 192.0.2.1", "expected an address of the sandbox's range 10.97.0.0/30")
	b.delete("a")
	b.await("b", "10.97.0.3")
	// If the requested address is not available, the Service keeps the one that it
	// has.
	b.change("b", wants("10.97.0.0"))
	b.awaitEvent("spec.loadBalancerIP 10.97.0.0", "is reserved")
	b.await("b", "10.97.0.3")
	b.change("b", wants("10.97.0.2"))
	b.await("b", "10.97.0.2")
}

func TestOtherClassIsLeftAlone(t *testing.T) {
	class := "example.com/other"
	b := start(t, service("a", has("10.97.0.1"), func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }), service("b", has("10.97.0.1")))
	b.awaitEvent("Warning UnsupportedLoadBalancerClass", `"example.com/other"`)
	b.await("a", "10.97.0.1")
	b.await("b", "10.97.0.1")
}
