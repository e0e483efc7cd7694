package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A DaemonSet with a hostPort, like Contour's Envoy: the port of the node leads to its
// pod, and an upgrade hands the port over to the new pod. Another pod that asks for the
// same port is not scheduled until the port is free.
func TestSandboxDaemonSetWithHostPort(t *testing.T) {
	t.Parallel()
	const hostPort = "18080"
	n := e2etest.NewNamespace(t)
	container := `
      ports:
        - containerPort: 8080
          hostPort: ` + hostPort + "\n" + strings.Trim(ready, "\n")
	n.Apply(`
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: edge
spec:
  selector:
    matchLabels:
      app: edge
  template:
    metadata:
      labels:
        app: edge
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: main
          image: argoproj/rollouts-demo:blue
` + strings.ReplaceAll(strings.Trim(container, "\n"), "      ", "          "))
	url := "http://" + cluster.NodeIP.String() + ":" + hostPort + "/color"
	answers := func(want string) {
		t.Helper()
		e2etest.Eventually(t, e2etest.Patience, want+" at "+url, func(ctx context.Context) error {
			body, err := e2etest.Get(ctx, url, "")
			if err == nil && body != `"`+want+`"` {
				err = fmt.Errorf("answer %s", body)
			}
			return err
		})
	}
	answers("blue")

	// An upgrade takes the port over from the old pod.
	n.Kubectl("set", "image", "daemonset/edge", "main=argoproj/rollouts-demo:green")
	n.Kubectl("rollout", "status", "daemonset/edge", "--timeout=60s")
	answers("green")
	n.Apply(pod("second", container))
	n.AwaitEvent("Pod", "second", "FailedScheduling", "free ports")
	n.Kubectl("delete", "daemonset", "edge")
	awaitPod(t, n, "second", "ready, with the port that is free", isReady)
	answers("blue")
}

// job is the manifest of a Job whose pods run a command of the plugin's image.
func job(name, spec, command string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata:
  name: %s
spec:
%s
  template:
    spec:
      containers:
        - name: main
          image: ghcr.io/kedify/argo-rollouts-plugin:dev
          command: [%s]
`, name, strings.Trim(spec, "\n"), command) + "      restartPolicy: " + policyOf(spec) + "\n"
}

// policyOf returns OnFailure if a Job's spec says to restart containers in place, and
// Never otherwise.
func policyOf(spec string) string {
	if strings.Contains(spec, "# in place") {
		return "OnFailure"
	}
	return "Never"
}

// Jobs complete, fail after their backoffLimit or deadline, and are cleaned up.
func TestSandboxJobs(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	const copies, fails = `cp, /proc/self/cmdline, /tmp/copy`, `cp, /nothing, /tmp/copy`
	for name, tc := range map[string]struct {
		spec, command string
		condition     batchv1.JobConditionType
		reason        string
		failed        int32
	}{
		"completes":   {"  completions: 2", copies, batchv1.JobComplete, "", 0},
		"fails":       {"  backoffLimit: 1", fails, batchv1.JobFailed, "BackoffLimitExceeded", 2},
		"in-place":    {"  backoffLimit: 1 # in place", fails, batchv1.JobFailed, "BackoffLimitExceeded", 1},
		"out-of-time": {"  activeDeadlineSeconds: 1\n  backoffLimit: 100", fails, batchv1.JobFailed, "DeadlineExceeded", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := n.With(t)
			n.Apply(job(name, tc.spec, tc.command))
			e2etest.Eventually(t, e2etest.Patience, "Job "+name+" "+string(tc.condition), func(ctx context.Context) error {
				job, err := n.Kube.BatchV1().Jobs(n.Name).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range job.Status.Conditions {
					if c.Type != tc.condition || c.Status != corev1.ConditionTrue {
						continue
					}
					if tc.reason != "" && c.Reason != tc.reason || tc.failed >= 0 && job.Status.Failed != tc.failed {
						t.Errorf("Job %s: %s, %d pods failed; want %s, %d", name, c.Reason, job.Status.Failed, tc.reason, tc.failed)
					}
					return nil
				}
				return fmt.Errorf("its status is %+v", job.Status)
			})
		})
	}
	t.Run("cleaned-up", func(t *testing.T) {
		t.Parallel()
		n := n.With(t)
		n.Apply(job("cleaned-up", "  ttlSecondsAfterFinished: 1", copies))
		e2etest.Eventually(t, e2etest.Patience, "the end of Job cleaned-up", func(ctx context.Context) error {
			_, err := n.Kube.BatchV1().Jobs(n.Name).Get(ctx, "cleaned-up", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("it is still there"))
		})
	})
}
