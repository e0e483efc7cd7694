package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

// controllerProcess is the Argo Rollouts controller of a colony. Its requests, and those
// of its plugin, are counted.
type controllerProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   string
}

// register makes a step plugin known to the controller of a namespace.
func (w *world) register(ctx context.Context, namespace string, r registration) error {
	list := fmt.Sprintf("- name: %s\n  location: file://%s\n  args: [%s]\n", r.name, r.path, strings.Join(r.args, ", "))
	for _, object := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}},
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "argo-rollouts-config", "namespace": namespace},
			"data": map[string]any{"stepPlugins": list},
		}},
	} {
		resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(object.GetKind()) + "s")
		if _, err := w.client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// startController starts the controller of a colony, and waits until it is healthy.
func (w *world) startController(ctx context.Context, of *colony, args ...string) (c *controllerProcess, err error) {
	dir, err := os.MkdirTemp(w.dir, "controller-") // the controller keeps its plugins in it
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	args = append(args, "--namespaced", "--namespace="+of.namespace, "--leader-elect=false", fmt.Sprintf("--healthzPort=%d", of.port), fmt.Sprintf("--metricsPort=%d", of.port+1))
	c = &controllerProcess{cmd: exec.Command(w.controller, args...), ended: make(chan struct{}), log: log.Name()}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, log, log
	c.cmd.Env = append(os.Environ(), "POD_NAMESPACE="+of.namespace, "KUBECONFIG="+of.counter.kubeconfig)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // the poll for its health reports it
		close(c.ended)
	}()
	err = gauge.Poll(ctx, 50*time.Millisecond, "the controller is healthy", func() (bool, error) {
		select {
		case <-c.ended:
			return false, errors.New("the controller has ended")
		default:
		}
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", of.port))
		if err != nil {
			return false, nil
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		err = c.explain(err)
		c.stop()
		return nil, err
	}
	return c, nil
}

// explain adds the end of the controller's log to an error.
func (c *controllerProcess) explain(err error) error {
	text, readErr := os.ReadFile(c.log)
	if readErr != nil {
		return err
	}
	return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4096):])
}

func (c *controllerProcess) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// cpu returns the processor time that the controller and its plugins have taken so far.
func (c *controllerProcess) cpu() (own, plugins time.Duration, err error) {
	if own, err = gauge.CPU(c.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	started, err := gauge.Children(c.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range started {
		took, err := gauge.CPU(pid)
		if err != nil {
			return 0, 0, err
		}
		plugins += took
	}
	return own, plugins, nil
}
