package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

// maxExecOutput is how much of a probe's output is kept, in bytes.
const maxExecOutput = 10 << 10

func expand(text string, env map[string]string) string {
	return expansion.Expand(text, expansion.MappingFuncFor(env))
}

// execPlace is what further processes in a running container need of it. It holds
// copies, as the container may end at any time.
type execPlace struct {
	spawner *spawner
	network *os.File
	proc    *process
	spec    *corev1.Container
	image   image.Image
	env     podEnv
}

func (w *worker) place(c *container) execPlace {
	return execPlace{w.n.spawner, w.network.Namespace(), c.proc, &c.spec, c.image, w.podEnv()}
}

// start runs a command in the container.
func (e execPlace) start(command []string, out outputs) (*process, error) {
	if len(command) == 0 {
		return nil, errors.New("the command is empty")
	}
	variables, err := e.env.environment(e.spec, e.image.Env)
	if err != nil {
		return nil, err
	}
	if _, ok := variables["PATH"]; !ok {
		variables["PATH"] = defaultPath
	}
	l := launch{
		Enter: e.proc.cmd.Process.Pid, WorkDir: workDir(e.spec, e.image), Argv: command, Env: envList(variables),
		Capabilities: capabilities(e.spec), NoNewPrivileges: true,
	}
	return e.spawner.launchProcess(l, e.network, out, nil)
}

// probe runs a command for a probe or a hook, and returns its output and whether it
// exited with 0.
func (e execPlace) probe(ctx context.Context, command []string) (bool, string) {
	read, write, err := os.Pipe()
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = read.Close() }()
	p, err := e.start(command, outputs{stdout: write, stderr: write})
	_ = write.Close()
	if err != nil {
		return false, err.Error()
	}
	output := make(chan string, 1)
	go func() {
		data, _ := io.ReadAll(io.LimitReader(read, maxExecOutput))
		output <- string(data)
	}()
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.done
		return false, fmt.Sprintf("command timed out: %v", ctx.Err())
	}
	// Processes that the command left behind may hold the output open.
	_ = read.SetReadDeadline(p.ended.Add(drainTime))
	return p.exitCode == 0, <-output
}

func workDir(c *corev1.Container, img image.Image) string {
	return cmp.Or(c.WorkingDir, img.WorkDir, "/")
}
