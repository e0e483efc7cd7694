package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

// forwardDial bounds how long a forwarded connection may take to be made.
const forwardDial = 5 * time.Second

// forwarder carries connections into a pod.
type forwarder struct{ worker *worker }

// PortForward copies between stream and a port of the pod, on its loopback address
// or, for programs that listen only there, on the pod's IP.
func (f forwarder) PortForward(ctx context.Context, name string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	var network *podnet.Pod
	f.worker.ask(func() { network = f.worker.network })
	if network == nil {
		return fmt.Errorf("pod %s has no network: it has not started, or has ended", name)
	}
	conn, err := dialPod(ctx, network, port)
	if err != nil {
		return fmt.Errorf("port %d of pod %s: %w", port, name, err)
	}
	defer func() { _ = conn.Close() }()

	toPod := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		toPod <- err
	}()
	// Once the pod has sent all that it will, it is taken to read nothing more
	// either.
	_, err = io.Copy(stream, conn)
	if err == nil {
		select {
		case err = <-toPod:
		default:
		}
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("port %d of pod %s: %w", port, name, err)
	}
	return nil
}

func dialPod(ctx context.Context, network *podnet.Pod, port int32) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardDial)
	defer cancel()
	var failed error
	for _, ip := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), network.IP} {
		conn, err := network.Dial(ctx, "tcp", netip.AddrPortFrom(ip, uint16(port)).String())
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// executor runs commands in the containers of a pod.
type executor struct{ worker *worker }

// ExecInContainer runs a command and waits for its end. There are no terminals.
func (e executor) ExecInContainer(ctx context.Context, name string, _ types.UID, container string, command []string,
	in io.Reader, out, errOut io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if tty {
		return errors.New("the sandbox's node has no terminals; leave out --tty (-t)")
	}
	var place execPlace
	var err error
	if !e.worker.ask(func() {
		c := e.worker.container(container)
		if c == nil || c.proc == nil {
			err = fmt.Errorf("container %q of pod %s does not run", container, name)
			return
		}
		place = e.worker.place(c)
	}) {
		return fmt.Errorf("pod %s is gone", name)
	}
	if err != nil {
		return err
	}
	var files outputs
	var copies sync.WaitGroup
	var ends []*os.File // The process's ends of the pipes, closed once the process has them.
	closeEnds := func() {
		for _, f := range ends {
			_ = f.Close()
		}
	}
	toStream := func(to io.WriteCloser) (*os.File, error) {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ends = append(ends, write)
		copies.Go(func() {
			_, _ = io.Copy(to, read)
			_ = read.Close()
		})
		return write, nil
	}
	if out != nil {
		if files.stdout, err = toStream(out); err != nil {
			closeEnds()
			return fmt.Errorf("pipe: %w", err)
		}
	}
	if errOut != nil {
		if files.stderr, err = toStream(errOut); err != nil {
			closeEnds()
			return fmt.Errorf("pipe: %w", err)
		}
	}
	if in != nil {
		read, write, err := os.Pipe()
		if err != nil {
			closeEnds()
			return fmt.Errorf("pipe: %w", err)
		}
		files.stdin, ends = read, append(ends, read)
		go func() {
			_, _ = io.Copy(write, in)
			_ = write.Close()
		}()
	}
	p, err := place.start(command, files)
	closeEnds()
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	waitTimeout(&copies, drainTime)
	if p.exitCode != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", p.exitCode), Code: p.exitCode}
	}
	return nil
}
