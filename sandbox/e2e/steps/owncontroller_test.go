package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// instanceLabel on a Rollout names the controller that it is for.
const instanceLabel = "argo-rollouts.argoproj.io/controller-instance-id"

// ownController is the controller of Argo Rollouts, with the step plugin, for the Rollouts of
// a namespace that have the label of an instance; the controller that tests share leaves
// them alone. It is a process of the test, which starts it again as soon as its proxy has
// killed it: a container would be in back-off.
type ownController struct {
	proxy *faultProxy

	t       *testing.T
	dir     string
	command func() *exec.Cmd
	log     *os.File

	mu       sync.Mutex
	cmd      *exec.Cmd
	killed   bool // whether the present process was killed
	stopping bool
	ended    chan struct{}
}

// newOwnController runs a controller for an instance until stop, or the test ends.
func newOwnController(t *testing.T, n *e2etest.Namespace, instance string) *ownController {
	t.Helper()
	path := func(addon, program string) string {
		paths, err := cluster.AddonPaths(addon)
		if err != nil {
			t.Fatal(err)
		}
		return paths[program]
	}
	n.Apply(fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: argo-rollouts-config
data:
  stepPlugins: |
    - {name: kedify/step, location: "file://%s", args: [--allow-host=10.244.0.1]}
`, path(stepplugin.Name, stepplugin.Program)))

	c := &ownController{t: t, dir: t.TempDir(), ended: make(chan struct{})}
	c.proxy = newFaultProxy(t, n.Cluster, c.kill)
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: c.proxy.URL}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", Namespace: n.Name}
	config.CurrentContext = "proxy"
	kubeconfig := filepath.Join(c.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.log, err = os.Create(filepath.Join(c.dir, "log")); err != nil {
		t.Fatal(err)
	}
	e2etest.KeepOnFailure(t, "controller-"+instance+".log", func() (string, error) {
		text, err := os.ReadFile(c.log.Name())
		return string(text), err
	})
	program := path(argorollouts.Name, "rollouts-controller")
	c.command = func() *exec.Cmd {
		cmd := exec.Command(program, "--instance-id="+instance, "--namespaced", "--leader-elect=false", "--metricsPort=0", "--healthzPort=0")
		// A process group of its own, so that its plugins are killed with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, c.log, c.log
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAMESPACE="+n.Name)
		return cmd
	}
	c.cmd = c.command()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.supervise()
	t.Cleanup(c.stop)
	return c
}

// supervise starts the controller again whenever the proxy has killed it.
func (c *ownController) supervise() {
	defer close(c.ended)
	for {
		err := c.cmd.Wait()
		c.mu.Lock()
		stopping, killed := c.stopping, c.killed
		c.mu.Unlock()
		switch {
		case stopping:
			return
		case !killed:
			c.t.Errorf("the controller ended, and nobody had killed it: %v", err)
			return
		}
		if err := c.awaitNoGroup(); err != nil {
			c.t.Errorf("the controller that was killed: %v", err)
			return
		}
		if !c.startAgain() {
			return
		}
	}
}

// startAgain starts the controller again unless it is to be stopped, and tells whether
// it did.
func (c *ownController) startAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return false
	}
	c.proxy.reopen()
	cmd := c.command()
	if err := cmd.Start(); err != nil {
		c.t.Errorf("starting the controller again: %v", err)
		return false
	}
	c.cmd, c.killed = cmd, false
	return true
}

// kill ends the controller and its plugins with SIGKILL.
func (c *ownController) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
}

// awaitNoGroup waits until the plugins have ended, too: Argo Rollouts does not start
// while a plugin runs whose program it wants to replace.
func (c *ownController) awaitNoGroup() error {
	return e2etest.Poll(context.Background(), e2etest.Patience, func(context.Context) error {
		if err := syscall.Kill(-c.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			return errors.Join(errors.New("its processes are there still"), err)
		}
		return nil
	})
}

// stop ends the controller for good.
func (c *ownController) stop() {
	c.mu.Lock()
	stopping := c.stopping
	c.stopping = true
	c.mu.Unlock()
	if stopping {
		return
	}
	c.kill()
	<-c.ended
	if err := c.awaitNoGroup(); err != nil {
		c.t.Errorf("the controller that was stopped: %v", err)
	}
	_ = c.log.Close()
}

// plugin returns the program of a registration, as the controller runs it.
func (c *ownController) plugin(name string) string {
	return filepath.Join(c.dir, "plugin-bin", name)
}
