package podnet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Pod is a pod's own network: a namespace with loopback, one interface with the
// pod's address, and the node as the gateway to everything else.
type Pod struct {
	// IP is the pod's address.
	IP netip.Addr

	ns    *os.File
	inode uint64
	veth  string
}

// NewPod creates the network of a pod. id is any text unique among the pods of
// this node; it names the interface on the node's side. Close takes it down.
func NewPod(id string, ip, nodeIP netip.Addr, podCIDR netip.Prefix) (*Pod, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("network of pod %s: namespace: %w", id, err)
	}
	pod := &Pod{IP: ip, ns: ns, veth: interfaceName(id)}
	if err := pod.setUp(nodeIP, podCIDR); err != nil {
		return nil, errors.Join(fmt.Errorf("network of pod %s: %w", id, err), pod.Close())
	}
	return pod, nil
}

func (p *Pod) setUp(nodeIP netip.Addr, podCIDR netip.Prefix) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(p.ns.Fd()), &stat); err != nil {
		return fmt.Errorf("stat of the namespace: %w", err)
	}
	p.inode = stat.Ino

	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("bridge %s: %w (SetUpNode comes first)", bridgeName, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = p.veth
	attrs.MasterIndex = bridge.Attrs().Index
	attrs.MTU = bridge.Attrs().MTU
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: hardwareAddr(p.IP), PeerNamespace: netlink.NsFd(p.ns.Fd())}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth %s: %w", p.veth, err)
	}
	link, err := netlink.LinkByName(p.veth)
	if err != nil {
		return fmt.Errorf("veth %s: %w", p.veth, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("veth %s up: %w", p.veth, err)
	}
	if err := p.inside(func() error { return setUpInside(p.IP, nodeIP, podCIDR) }); err != nil {
		return err
	}
	if err := waitUp(p.veth); err != nil {
		return err
	}
	return p.inside(func() error { return waitUp("eth0") })
}

// upTimeout bounds the wait for an interface; the kernel usually needs a
// millisecond.
const upTimeout = 5 * time.Second

// waitUp waits until an interface carries packets. The kernel reports this a moment
// after both ends of the pair are up; a connection made before loses its first
// packet and takes a second longer.
func waitUp(name string) error {
	deadline := time.Now().Add(upTimeout)
	for {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		state := link.Attrs().OperState
		if state == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("interface %s is %s after %v; expected it to be up", name, state, upTimeout)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

func setUpInside(ip, nodeIP netip.Addr, podCIDR netip.Prefix) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	if err := netlink.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(ip, podCIDR.Bits()))}); err != nil {
		return fmt.Errorf("address %s on eth0: %w", ip, err)
	}
	if err := netlink.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("eth0 up: %w", err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: nodeIP.AsSlice()}); err != nil {
		return fmt.Errorf("default route by %s: %w", nodeIP, err)
	}
	// Containers that drop every capability still bind low ports, as they do
	// under the usual container runtimes. Older kernels do not have the setting.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("low ports for everybody: %w", err)
	}
	return nil
}

// Close takes the network down. Processes in the namespace keep it, but nothing
// reaches them any more.
func (p *Pod) Close() error {
	return errors.Join(deleteLink(p.veth), p.ns.Close())
}

// Namespace is an open file of the pod's network namespace, to hand to a process
// that joins it. It is valid until Close.
func (p *Pod) Namespace() *os.File { return p.ns }

// Processes lists the ids of all processes in the pod's network: those of its
// containers and whatever they left behind, in no order.
func (p *Pod) Processes() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("processes of the pod with address %s: %w", p.IP, err)
	}
	defer func() { _ = proc.Close() }()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("processes of the pod with address %s: %w", p.IP, err)
	}
	want := "net:[" + strconv.FormatUint(p.inode, 10) + "]"
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ends meanwhile, or belongs to another user, is none of the
		// pod's.
		if ns, err := os.Readlink("/proc/" + name + "/ns/net"); err == nil && strings.EqualFold(ns, want) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Dial connects from inside the pod, so that 127.0.0.1 is the pod's own.
// address must be an IP address and a port, network "tcp" or "udp".
func (p *Pod) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return nil, fmt.Errorf("dial in pod %s: %q: expected an IP address and a port: %w", p.IP, address, err)
	}
	var conn net.Conn
	err := p.inside(func() error {
		var d net.Dialer
		var err error
		// A socket belongs to the namespace it is created in, and for an IP
		// address the dialer creates it on this goroutine.
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// inside runs f on a thread that is in the pod's network namespace. f must not
// start goroutines whose namespace matters, nor processes with a parent-death
// signal.
func (p *Pod) inside(f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("join the network namespace: %w", err)
		}
		return f()
	})
}

// newNamespace creates a network namespace that lives as long as the returned
// file, or a process in it, does.
func newNamespace() (*os.File, error) {
	var file *os.File
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		file = os.NewFile(uintptr(fd), "netns")
		return nil
	})
	return file, err
}

// onOwnThread runs f on a thread that ends with f, so that no other work can run in
// the namespaces f changes to. It is never the process's first thread: that thread
// cannot end, and /proc shows its namespaces as those of the process.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The next goroutine cannot get this thread while this one holds it.
			done <- onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		// Never unlocked: the runtime ends a thread whose goroutine ends locked.
		done <- f()
	}()
	return <-done
}

func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("delete interface %s: %w", name, err)
	}
	return nil
}

// interfaceName derives a name of at most 15 bytes, the kernel's limit.
func interfaceName(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return fmt.Sprintf("pod%012x", h.Sum64()>>16)
}
