package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// get returns what a URL answers.
func get(t *testing.T, url string) string {
	t.Helper()
	body, err := e2etest.Get(t.Context(), url, "")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A Service is reached by its ClusterIP and by its names, and spreads connections over
// the pods that are ready, and no others.
func TestSandboxServices(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(e2etest.Service("colours", "colours"))
	for _, name := range []string{"one", "two", "three"} {
		more := `
      readinessProbe:
        httpGet:
          path: /healthz
          port: 8080
        periodSeconds: 1
`
		if name == "three" {
			more = strings.Replace(more, "/healthz", "/nothing", 1)
		}
		n.Apply(strings.Replace(pod(name, more), "    app: "+name, "    app: colours", 1))
	}
	awaitPod(t, n, "one", "ready", isReady)
	awaitPod(t, n, "two", "ready", isReady)
	// Pod three listens, too: it would answer if the Service connected to it.
	n.AwaitEvent("Pod", "three", "Unhealthy", "Readiness", "404")
	service, err := n.Kube.CoreV1().Services(n.Name).Get(t.Context(), "colours", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, host := range map[string]string{
		"ClusterIP":        service.Spec.ClusterIP,
		"full name":        "colours." + n.Name + ".svc.cluster.local",
		"name and .svc":    "colours." + n.Name + ".svc",
		"name and its own": "colours." + n.Name,
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			answered := func(ctx context.Context) error {
				answer, err := e2etest.Ask(ctx, "http://"+host+"/color", "")
				if err != nil {
					return err
				}
				if answer.Body != `"blue"` {
					t.Errorf("%s answers %s", answer.Pod, answer.Body)
				}
				seen[answer.Pod]++
				if seen["one"] == 0 || seen["two"] == 0 {
					return fmt.Errorf("only %v have answered", seen)
				}
				return nil
			}
			e2etest.Eventually(t, e2etest.Patience, "answers of both pods at "+host, answered)
			for range 30 {
				if err := answered(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if seen["three"] > 0 {
				t.Errorf("a pod that is not ready has answered: %v", seen)
			}
		})
	}

	n.Kubectl("delete", "pod", "one", "two")
	awaitRefused(t, "http://"+service.Spec.ClusterIP+"/color")
}

// awaitRefused waits until connections to a URL are refused, as those to a Service without a
// ready pod are.
func awaitRefused(t *testing.T, url string) {
	t.Helper()
	e2etest.Eventually(t, e2etest.Patience, "connections to "+url+" are refused", func(ctx context.Context) error {
		answer, err := e2etest.Ask(ctx, url, "")
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err == nil:
			return fmt.Errorf("pod %q answers %q", answer.Pod, answer.Body)
		}
		return err
	})
}

// `kubectl port-forward` to a Service and to a pod, as in the guide's
//
//	kubectl -n rollouts-demo port-forward svc/kedify-proxy-admin 9901:9901
func TestSandboxPortForward(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(pod("proxy", "      # nothing more"))
	n.Apply(`
apiVersion: v1
kind: Service
metadata:
  name: kedify-proxy-admin
spec:
  ports:
    - port: 9901
      targetPort: 8080
  selector:
    app: proxy
`)
	awaitPod(t, n, "proxy", "ready", isReady)
	for name, tc := range map[string]struct {
		args []string
		url  string
	}{
		"Service":       {[]string{"svc/kedify-proxy-admin", "9901:9901"}, "http://localhost:9901/color"},
		"pod, any port": {[]string{"pod/proxy", ":8080"}, ""},
		"other address": {[]string{"pod/proxy", "9902:8080", "--address=0.0.0.0"}, "http://10.244.0.1:9902/color"},
	} {
		t.Run(name, func(t *testing.T) {
			url := portForward(t, n, tc.args...)
			if tc.url != "" {
				url = tc.url
			}
			for range 3 {
				if body := get(t, url); body != `"blue"` {
					t.Errorf("%s answers %s", url, body)
				}
			}
		})
	}
}

var forwarding = regexp.MustCompile(`Forwarding from (\S+:\d+) -> \d+`)

// portForward runs kubectl port-forward until the test ends, and returns a URL
// on the first address that kubectl prints.
func portForward(t *testing.T, n *e2etest.Namespace, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"-n", n.Name, "port-forward"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if match := forwarding.FindStringSubmatch(lines.Text()); match != nil {
				select {
				case first <- "http://" + match[1] + "/color":
				default:
				}
			}
		}
		ended <- errors.Join(lines.Err(), cmd.Wait())
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case url := <-first:
		return url
	case err := <-ended:
		ended <- err // for the clean-up
		t.Fatalf("kubectl port-forward %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	case <-time.After(e2etest.Patience):
		t.Fatalf("kubectl port-forward %s says nothing", strings.Join(args, " "))
	}
	return ""
}
