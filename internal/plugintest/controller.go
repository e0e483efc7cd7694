package plugintest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/hashicorp/go-plugin"
)

// controllerEnv makes a test program act as the controller; its value is the plugin to
// start.
const controllerEnv = "TEST_CONTROLLER_OF"

// PlayController is for the TestMain of a program that calls KillController. In the
// process that KillController has started, it acts as a controller that starts a plugin
// by run, and never returns. Elsewhere it does nothing.
func PlayController[T interface{ InitPlugin() types.RpcError }](run func(path string) *plugin.Client, dispense func(*plugin.Client) (T, error)) {
	path := os.Getenv(controllerEnv)
	if path == "" {
		return
	}
	c := run(path)
	served, err := dispense(c)
	if err == nil {
		if rpcErr := served.InitPlugin(); rpcErr.HasError() {
			err = rpcErr
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.ReattachConfig().Pid)
	select {}
}

// KillController starts a controller that starts a plugin, kills it with SIGKILL, and
// requires that the plugin ends.
func KillController(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	controller := exec.Command(self)
	controller.Env = append(os.Environ(), controllerEnv+"="+path)
	stdout, err := controller.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid, parseErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || parseErr != nil {
		t.Fatalf("the controller said %q: %v %v", line, err, parseErr)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the plugin does not run: %v", err)
	}
	if err := controller.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = controller.Wait()
	Eventually(t, "the plugin has ended", func() bool { return ended(pid) })
}

// ended tells whether a process is gone, or is a zombie that its parent has not reaped
// yet.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}
