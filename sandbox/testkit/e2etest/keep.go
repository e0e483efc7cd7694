package e2etest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/artifacts"
)

// failedRun is the directory for what a failed run leaves; RunTests sets it.
var failedRun string

// failedDir returns the directory for what a failed test leaves. A subtest's is in its
// test's.
func failedDir(t testing.TB) string {
	return filepath.Join(failedRun, filepath.FromSlash(t.Name()))
}

// KeepOnFailure writes a file when the test ends, if it has failed by then. Long texts go
// to files, so that a failed test's output ends with the reason. read returns the text of
// the file, and the error of what it could not get.
func KeepOnFailure(t testing.TB, file string, read func() (string, error)) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		text, err := read()
		dir := failedDir(t)
		if err := errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)); err != nil {
			t.Logf("keeping %s: %v", file, err)
		}
		t.Logf("see %s", filepath.Join(dir, file))
	})
}

// Keep writes the objects and logs of the namespace to a directory, with what the
// controller and the interceptors say of it. It returns the errors of those that it could
// not get.
func (n *Namespace) Keep(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	command := func(ctx context.Context, args ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = n.environment()
		return cmd, nil
	}
	err := artifacts.Keep(ctx, command, dir, n.Name)
	for _, namespace := range []string{ControllerNamespace, interceptorNamespace} {
		log, logErr := n.logs(ctx, namespace)
		err = errors.Join(err, logErr)
		if about := LinesWith(log, n.Name); about != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "logs", namespace+".log"), []byte(about), 0o644))
		}
	}
	return err
}

// interceptorNamespace is where deploy/interceptor installs interceptor, scaler and agent.
const interceptorNamespace = "keda"

// ControllerLog returns the logs of the controller's present containers.
func (c *Cluster) ControllerLog(ctx context.Context) (string, error) {
	return c.logs(ctx, ControllerNamespace)
}

// logs returns the logs of the present containers of all pods of a namespace.
func (c *Cluster) logs(ctx context.Context, namespace string) (string, error) {
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		log, err := c.Kube.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("log of pod %s/%s: %w", namespace, pod.Name, err)
		}
		text.Write(log)
	}
	return text.String(), nil
}
