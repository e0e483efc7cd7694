package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/agent"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/gitopstest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffic"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/traffictest"
)

const (
	toStable = "app-stable:80"
	toProxy  = "kedify-proxy:8080"
)

// autowired is a ScaledObject that asks for its Ingress.
func autowired(metadata ...string) scaled {
	s := scaled{metadata: map[string]string{"trafficAutowire": "ingress"}}
	for i := 0; i < len(metadata); i += 2 {
		s.metadata[metadata[i]] = metadata[i+1]
	}
	return s
}

// behindIngress waits until the Ingress answers for a host, and returns it as a proxy.
func behindIngress(t *testing.T, n *e2etest.Namespace, host string) traffictest.Proxy {
	t.Helper()
	p := traffictest.Proxy{Name: "ingress"}
	e2etest.Eventually(t, e2etest.Patience, "an answer of the Ingress", func(ctx context.Context) error {
		found, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return err
		}
		addresses := found.Status.LoadBalancer.Ingress
		if len(addresses) == 0 {
			return errors.New("its status has no address")
		}
		p.Address = net.JoinHostPort(addresses[0].IP, "80")
		answers, err := traffic.Send(ctx, traffic.Options{Target: p.Address, Host: host}, 1)
		if err == nil && answers[0].Failed() {
			err = errors.New(answers[0].String())
		}
		return err
	})
	return p
}

// awaitBackendOf waits until the first path of the Ingress "app" has a backend.
func awaitBackendOf(t *testing.T, n *e2etest.Namespace, want string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "the Ingress points at "+want, func(ctx context.Context) error {
		found, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return err
		}
		service := found.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		if got := fmt.Sprintf("%s:%d", service.Name, service.Port.Number); got != want {
			return fmt.Errorf("it points at %s, annotations %v", got, found.Annotations)
		}
		return nil
	})
}

// isNotWired returns a check that an object says why it is not wired; nothing for that it is.
func isNotWired(parts ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		why, is := o.GetAnnotations()["http.kedify.io/not-wired"]
		if is != (len(parts) > 0) || !e2etest.ContainsAll(why, parts) {
			return fmt.Errorf("not-wired is %q, want %q", why, parts)
		}
		return nil
	}
}

// From before there is a ScaledObject to after it is gone, over a canary in whose middle
// somebody edits the Ingress, no request is lost. Of the agent's own Ingress nothing stays.
func TestAnIngressIsWiredUnderLoad(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	a := canary()
	n.Apply(a.Services() + a.Rollout() + ingress(host))
	n.AwaitHealthy(app, e2etest.Image("blue"))
	p := behindIngress(t, n, host)
	load := traffictest.StartParallelLoadAt(t, p, host, 50)

	n.Apply(autowired().manifest(host))
	awaitBackendOf(t, n, toProxy)
	awaitObject(t, n, "is wired", isNotWired())
	n.AwaitEvent("Ingress", app, "Wired", "kedify-proxy", app)

	n.SetImage(app, e2etest.Image("yellow"))
	n.AwaitPaused(app, 1)
	n.AwaitSplit(app, a.Split(20))
	load.AwaitBoth("blue", "yellow")
	// A path that has come is wired too, and the other one stays.
	n.Kubectl("patch", "ingress", app, "--type=json", "-p",
		`[{"op":"add","path":"/spec/rules/-","value":{"host":"`+host+`","http":{"paths":[{"path":"/more","pathType":"Prefix","backend":{"service":{"name":"app-stable","port":{"number":80}}}}]}}}]`)
	e2etest.Eventually(t, e2etest.Patience, "both paths are wired", func(ctx context.Context) error {
		found, err := n.Kube.NetworkingV1().Ingresses(n.Name).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, rule := range found.Spec.Rules {
			if service := rule.HTTP.Paths[0].Backend.Service; service.Name != "kedify-proxy" {
				return fmt.Errorf("path %s points at %s", rule.HTTP.Paths[0].Path, service.Name)
			}
		}
		return nil
	})
	n.RequireSplit(app, a.Split(20))

	n.Delete(autowired().manifest(host))
	awaitBackendOf(t, n, toStable)
	awaitGone(t, n)
	load.RequireOnly("blue")
	e2etest.Eventually(t, e2etest.Patience, "no Ingress of the agent's own", func(ctx context.Context) error {
		list, err := n.Kube.NetworkingV1().Ingresses(n.Name).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d Ingresses", len(list.Items))
		}
		return err
	})
	load.Finish(nil, "blue", "yellow")
}

// A path with more requests than the object's stays, and an Event says why. As narrow as the
// object it is wired; with the object narrower it is put back.
func TestAPathThatFitsInPart(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	a := canary()
	n.Apply(a.Services() + a.Rollout() + ingress(host) + autowired("pathPrefixes", "/color").manifest(host))
	n.AwaitEvent("Ingress", app, "FitsInPart", "path / of host "+host, "make the path as narrow as the trigger")
	awaitObject(t, n, "says why", isNotWired("path / of host "+host))
	awaitBackendOf(t, n, toStable)

	n.Kubectl("patch", "ingress", app, "--type=json", "-p", `[{"op":"replace","path":"/spec/rules/0/http/paths/0/path","value":"/color"}]`)
	awaitBackendOf(t, n, toProxy)
	awaitObject(t, n, "is wired", isNotWired())
	n.Apply(autowired("pathPrefixes", "/color/blue").manifest(host))
	awaitBackendOf(t, n, toStable)
	n.Apply(autowired("pathPrefixes", "/color").manifest(host))
	awaitBackendOf(t, n, toProxy)
	n.Apply(scaled{metadata: map[string]string{"trafficAutowire": "false"}}.manifest(host))
	awaitBackendOf(t, n, toStable)
	awaitObject(t, n, "counts as wired", isNotWired())
}

// Who writes an Ingress back again and again is left alone, and told.
func TestAWriterOfAnIngressIsLeftAlone(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	a := canary()
	git := gitopstest.Fixed(gitopstest.ClientSide, ingress(host))
	git.Apply(t, n)
	n.Apply(a.Services() + a.Rollout() + autowired().manifest(host))
	awaitBackendOf(t, n, toProxy)

	// Once is nothing: it is wired again.
	git.Apply(t, n)
	awaitBackendOf(t, n, toProxy)
	n.AwaitEvent("Ingress", app, "WrittenBack", "docs/how-to/gitops.md")

	tool := gitopstest.Start(t, n, git)
	for _, kind := range []string{"Ingress", "Rollout"} {
		n.AwaitEvent(kind, app, "LeftAlone", "5 times in 10m0s", "http.kedify.io/left-alone-until")
	}
	tool.AwaitRounds(t, 2)
	awaitBackendOf(t, n, toStable)
	awaitObject(t, n, "says that it is left alone", isNotWired("is left alone until"))

	// Whoever has stopped the writer need not wait.
	tool.Stop()
	n.Kubectl("annotate", "ingress", app, "http.kedify.io/left-alone-until-")
	awaitBackendOf(t, n, toProxy)
	awaitObject(t, n, "is wired", isNotWired())
}

// While no kedify-proxy is ready, requests go past it. It is one of the user's, which the agent
// leaves as it is.
func TestAnIngressWithoutKedifyProxy(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	a := canary()
	traffictest.Envoy(t, n)
	n.Apply(a.Services() + a.Rollout() + ingress(host) + autowired().manifest(host))
	awaitBackendOf(t, n, toProxy)
	n.Kubectl("scale", "deployment", proxy, "--replicas=0")
	awaitBackendOf(t, n, toStable)
	n.AwaitEvent("Ingress", app, "PutBack", "app-stable")
	n.Kubectl("scale", "deployment", proxy, "--replicas=1")
	awaitBackendOf(t, n, toProxy)
	awaitObject(t, n, "is wired", isNotWired())
	behindIngress(t, n, host)
}

// An application under load that may be scaled to 0 is not, although KEDA sees no requests
// before the Ingress is wired.
func TestALoadedApplicationMayBeScaledToZero(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	n.Apply(traffictest.Deployment(app, "blue", 2) + strings.ReplaceAll(ingress(host), "app-stable", app))
	p := behindIngress(t, n, host)
	load := traffictest.StartParallelLoadAt(t, p, host, 20)
	s := autowired("service", app, "targetValue", "10")
	s.kind = "Deployment"
	n.Apply(strings.Replace(s.manifest(host), `"minReplicaCount":1`, `"minReplicaCount":0,"cooldownPeriod":1,"pollingInterval":1`, 1))
	awaitBackendOf(t, n, toProxy)
	awaitObject(t, n, "is wired", isNotWired())
	e2etest.Eventually(t, e2etest.Patience, "KEDA scales it by its requests", func(ctx context.Context) error {
		so := n.Kubectl("get", "scaledobject", app, "-o", `jsonpath={.status.conditions[?(@.type=="Active")].status}`)
		if so != "True" {
			return fmt.Errorf("Active is %s", so)
		}
		return nil
	})
	load.Next(400)
	load.Finish(nil, "blue")
}

// Whenever the agent is killed, what it has begun is completed or taken back by the next: all
// paths, no request lost, nothing left.
//
// It is not parallel: it takes the agent away from all tests.
func TestTheAgentIsKilledWhileItWires(t *testing.T) {
	n := e2etest.NewNamespace(t)
	host := n.Name + ".test"
	a := canary()
	n.Apply(a.Services() + a.Rollout() + ingress(host))
	n.AwaitHealthy(app, e2etest.Image("blue"))
	load := traffictest.StartParallelLoadAt(t, behindIngress(t, n, host), host, 50)
	kill := func() {
		t.Helper()
		pods := e2etest.Connect(t).AwaitReplicas(t, keda.Namespace, agent.Deployment, 2)
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		traffictest.Kill(t, pods...)
	}
	annotated := func(key string) {
		t.Helper()
		e2etest.Eventually(t, e2etest.Patience, "the first write of several", func(ctx context.Context) error {
			list, err := n.Kube.NetworkingV1().Ingresses(n.Name).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, i := range list.Items {
				if strings.HasPrefix(i.Name, key) || i.Annotations[key] != "" {
					return nil
				}
			}
			return errors.New("it is not there")
		})
	}
	n.Apply(autowired().manifest(host))
	annotated("kedify-agent-") // its own Ingress is there, the user's as it was
	kill()
	annotated("http.kedify.io/wired-paths") // the path is wired, the object is not told
	kill()
	awaitObject(t, n, "is wired", isNotWired())
	awaitBackendOf(t, n, toProxy)
	n.Delete(autowired().manifest(host))
	kill() // it is put back or not
	awaitBackendOf(t, n, toStable)
	kill() // its own Ingress is there, the finalizer too
	awaitGone(t, n)
	e2etest.Eventually(t, e2etest.Patience, "no Ingress of the agent's own", func(ctx context.Context) error {
		list, err := n.Kube.NetworkingV1().Ingresses(n.Name).List(ctx, metav1.ListOptions{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Annotations["http.kedify.io/wired-paths"] != "") {
			err = fmt.Errorf("there are %d Ingresses: %v", len(list.Items), list.Items[0].Annotations)
		}
		return err
	})
	load.Finish(nil, "blue")
}
