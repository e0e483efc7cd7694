package podnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespaces is set for the copy of the test binary that runs in namespaces of
// its own.
const inNamespaces = "PODNET_TEST_IN_NAMESPACES"

// TestMain runs the tests in user and network namespaces of their own, which is
// how the node runs, and keeps this machine's network untouched.
func TestMain(m *testing.M) {
	if os.Getenv(inNamespaces) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			_, _ = os.Stderr.WriteString("podnet tests need user namespaces: " + err.Error() + "\n")
		}
		os.Exit(1)
	}
}

var (
	nodeIP   = netip.MustParseAddr("10.244.0.1")
	pods     = netip.MustParsePrefix("10.244.0.0/16")
	services = netip.MustParsePrefix("10.96.0.0/16")
	// balancers is a range apart from the others; beside is an address in the pods'
	// range.
	balancers = netip.MustParsePrefix("10.97.0.0/24")
	beside    = netip.MustParsePrefix("10.244.0.2/32")
)

func newTestPod(t *testing.T, ip string) *Pod {
	t.Helper()
	for range 2 { // The second time changes nothing.
		if err := SetUpNode(nodeIP, pods, services, balancers, beside); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := NewPod(t.Name()+ip, netip.MustParseAddr(ip), nodeIP, pods)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPodReachesServiceAndIsReached(t *testing.T) {
	pod := newTestPod(t, "10.244.1.1")
	defer func() { _ = pod.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	for _, address := range []string{"10.96.3.4:80", "10.97.0.5:80", "10.244.0.2:80"} {
		service, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = service.Close() }()
		go func() {
			conn, err := service.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, conn.RemoteAddr().(*net.TCPAddr).IP.String())
			_ = conn.Close()
		}()
		conn, err := pod.Dial(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != "10.244.1.1" {
			t.Errorf("%s dialled in the pod answered %q, %v; want the pod's address", address, got, err)
		}
	}

	// Another pod listens on its loopback and on its address; only the address can
	// be reached from outside.
	other := newTestPod(t, "10.244.1.2")
	defer func() { _ = other.Close() }()
	var listener net.Listener
	if err := other.inside(func() (err error) {
		listener, err = net.Listen("tcp", "0.0.0.0:8080")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for _, from := range []*Pod{pod, other} {
		conn, err := from.Dial(ctx, "tcp", "10.244.1.2:8080")
		if err != nil {
			t.Errorf("from %s: %v", from.IP, err)
			continue
		}
		_ = conn.Close()
	}
	if conn, err := other.Dial(ctx, "tcp", "127.0.0.1:8080"); err != nil {
		t.Errorf("loopback of the pod: %v", err)
	} else {
		_ = conn.Close()
	}
	if _, err := pod.Dial(ctx, "tcp", "127.0.0.1:8080"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("loopback of another pod: %v, want connection refused", err)
	}
}

func TestProcesses(t *testing.T) {
	pod := newTestPod(t, "10.244.1.3")
	defer func() { _ = pod.Close() }()
	if pids, err := pod.Processes(); err != nil || len(pids) != 0 {
		t.Fatalf("Processes = %v, %v; want none", pids, err)
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestWaitForEOF$")
	child.Env = append(os.Environ(), "PODNET_TEST_WAIT=1")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pod.inside(child.Start); err != nil {
		t.Fatal(err)
	}
	pids, err := pod.Processes()
	if err != nil || !slices.Equal(pids, []int{child.Process.Pid}) {
		t.Errorf("Processes = %v, %v; want %d", pids, err, child.Process.Pid)
	}
	_ = stdin.Close()
	if err := child.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// TestWaitForEOF is the child of TestProcesses.
func TestWaitForEOF(t *testing.T) {
	if os.Getenv("PODNET_TEST_WAIT") == "" {
		t.Skip("only as a child of TestProcesses")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestCloseLeavesNothing(t *testing.T) {
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	pod := newTestPod(t, "10.244.1.4")
	if err := pod.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range after {
		if i.Name != bridgeName && !slices.ContainsFunc(before, func(b net.Interface) bool { return b.Name == i.Name }) {
			t.Errorf("interface %s is left", i.Name)
		}
	}
}

// TestAddressIsReusedAtOnce reaches a pod, and then another one that got its
// address: no neighbour may still use the first one's Ethernet address.
func TestAddressIsReusedAtOnce(t *testing.T) {
	for i := range 5 {
		pod := newTestPod(t, "10.244.1.9")
		// More ports, so that a bridge would choose another address for itself.
		other := newTestPod(t, fmt.Sprintf("10.244.2.%d", i+1))
		var listener net.Listener
		if err := pod.inside(func() (err error) {
			listener, err = net.Listen("tcp", "0.0.0.0:8080")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for from, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
			"the node": new(net.Dialer).DialContext, "a pod": other.Dial,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			conn, err := dial(ctx, "tcp", "10.244.1.9:8080")
			cancel()
			if err != nil {
				t.Fatalf("pod %d with the address, from %s: %v", i, from, err)
			}
			// Packets to an outdated Ethernet address are lost, and retransmitted.
			if n := retransmissions(t, conn); n > 0 {
				t.Errorf("pod %d with the address, from %s: sent %d times again", i, from, n)
			}
			_ = conn.Close()
		}
		_ = listener.Close()
		if err := pod.Close(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := RemoveLeftovers(); err != nil {
		t.Fatal(err)
	}
	list, err := net.Interfaces()
	if err != nil || len(list) != 2 {
		t.Errorf("interfaces %v, %v; want the loopback and the bridge", list, err)
	}
}

// retransmissions returns how often the kernel has retransmitted on a connection.
func retransmissions(t *testing.T, conn net.Conn) uint32 {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if controlled := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); controlled != nil || err != nil {
		t.Fatal(controlled, err)
	}
	return info.Total_retrans
}

// TestThreads makes it likely that the process's first thread is picked for work in
// a namespace, and checks that it never is.
func TestThreads(t *testing.T) {
	want, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			ns, err := newNamespace()
			if err != nil {
				t.Error(err)
				return
			}
			if err := (&Pod{ns: ns}).inside(func() error {
				if unix.Gettid() == unix.Getpid() {
					t.Error("work in a namespace is on the first thread")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			_ = ns.Close()
		})
	}
	wg.Wait()
	if got, err := os.Readlink("/proc/self/ns/net"); err != nil || got != want {
		t.Errorf("the process is in %s, %v; was in %s", got, err, want)
	}
}
