package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/podnet"
)

const (
	// inNamespaces is set for the copy of the test binary that runs the tests, in
	// namespaces of its own as the node does.
	inNamespaces = "NODE_TEST_IN_NAMESPACES"
	// asProgram is set where the test binary is a container's program.
	asProgram = "NODE_TEST_PROGRAM"
	// asNode is set, to a directory, where the test binary is a node to be killed.
	asNode = "NODE_TEST_NODE"
)

// TestMain is the test binary in each of its roles: the tests, a container's
// process before its program, and programs for containers.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "container":
		os.Exit(ContainerMain(nil))
	case os.Getenv(asProgram) != "":
		os.Exit(program(os.Args[1:]))
	case os.Getenv(asNode) != "":
		os.Exit(nodeThatDies(os.Getenv(asNode)))
	case os.Getenv(inNamespaces) != "":
		if err := SetUpNetwork(testConfig(os.TempDir())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := build.CheckStatic("/proc/self/exe"); err != nil {
		fmt.Fprintln(os.Stderr, "containers run this test, and hold nothing else:", err)
		os.Exit(1)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inNamespaces+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			fmt.Fprintln(os.Stderr, "node tests need user namespaces:", err)
		}
		os.Exit(1)
	}
}

func testConfig(dir string) Config {
	return Config{
		Name: "sandbox", StateDir: dir, NodeIP: netip.MustParseAddr("10.244.0.1"), PodCIDR: netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"), LoadBalancerCIDR: netip.MustParsePrefix("10.97.0.0/24"),
		ClusterDNS: netip.MustParseAddr("10.96.0.10"), Log: slog.New(slog.DiscardHandler),
	}
}

// nodeThatDies starts a few containers, prints their process ids, and waits to be
// killed.
func nodeThatDies(dir string) int {
	network, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	s := newSpawner()
	for range 8 {
		p, err := s.launchProcess(launch{
			Root: dir, Hostname: "c", WorkDir: "/", Argv: []string{"/program", "stubborn"}, Env: []string{asProgram + "=1"},
			Mounts: []bindMount{{Source: self, Target: "/program"}},
		}, network, outputs{}, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(p.cmd.Process.Pid)
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
	return 0
}

// report is what a container's program sees.
type report struct {
	Hostname, WorkDir string
	Env               []string
	Root              []string
	Unwritable        []string // of the paths to write to
	Files             map[string]string
	Interfaces        []string
	Capabilities      string
	NoNewPrivileges   string
}

// program is what containers run in these tests.
func program(args []string) int {
	switch args[0] {
	case "exit":
		code, err := strconv.Atoi(args[1])
		if err != nil {
			return 99
		}
		fmt.Println("leaving with", code)
		return code
	case "report": // report write=PATH… read=PATH…
		r, err := look(args[1:])
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "serve":
		ctx := make(chan os.Signal, 1)
		signal.Notify(ctx, syscall.SIGTERM)
		go func() {
			<-ctx
			fmt.Println("asked to stop")
			os.Exit(0)
		}()
		fmt.Println("serving")
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", http.NotFoundHandler()))
		return 1
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("staying")
		for {
			time.Sleep(time.Hour)
		}
	case "stop-slowly": // Exits with 0, one and a half seconds after it is asked to: statuses have whole seconds.
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("running")
		<-asked
		time.Sleep(1500 * time.Millisecond)
		return 0
	case "orphan": // Leaves a process behind that is in a session of its own.
		child := exec.Command(os.Args[0], "stubborn")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return 98
}

func look(args []string) (report, error) {
	r := report{Env: os.Environ(), Files: map[string]string{}}
	var err error
	if r.Hostname, err = os.Hostname(); err != nil {
		return r, err
	}
	if r.WorkDir, err = os.Getwd(); err != nil {
		return r, err
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		r.Root = append(r.Root, e.Name())
	}
	for _, arg := range args {
		switch what, path, _ := strings.Cut(arg, "="); what {
		case "write":
			if err := os.WriteFile(filepath.Join(path, "probe"), nil, 0o600); err != nil {
				r.Unwritable = append(r.Unwritable, path)
			}
		case "read":
			data, err := os.ReadFile(path)
			if err != nil {
				return r, err
			}
			r.Files[path] = string(data)
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return r, err
	}
	for _, i := range interfaces {
		r.Interfaces = append(r.Interfaces, i.Name)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff":
			r.Capabilities = value
		case "NoNewPrivs":
			r.NoNewPrivileges = value
		}
	}
	return r, nil
}

// bench is a node with a fake API server.
type bench struct {
	t      *testing.T
	node   *node
	client *fake.Clientset
	events *record.FakeRecorder
}

func newBench(t *testing.T, objs ...runtime.Object) *bench {
	t.Helper()
	cfg := testConfig(t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	err = cfg.Images.Add(image.Entry{Repository: "test/program", Tag: "v1", Image: image.Image{
		Files: map[string]string{"/bin/program": self}, Entrypoint: []string{"/bin/program"}, Env: []string{asProgram + "=1", "COLOR=image"},
		WorkDir: "/home/test", Dirs: []string{"/made"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := podnet.NewAllocator(cfg.PodCIDR, netip.MustParseAddr("10.244.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, client: fake.NewClientset(objs...), events: record.NewFakeRecorder(1000)}
	// The object stays, so that tests can read its last status; delete looks for
	// the request.
	b.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	b.node = &node{
		cfg: cfg, client: b.client, events: b.events, addresses: addresses, spawner: newSpawner(), workers: map[types.UID]*worker{},
		sources:  objects{configMaps: map[string]map[string]string{"cm": {"key": "value"}}},
		services: corelisters.NewServiceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})),
	}
	t.Cleanup(func() { b.node.stopPods() })
	return b
}

// testPod makes a pod of one container "c" that runs the test program with args.
func testPod(name string, policy corev1.RestartPolicy, args ...string) *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			NodeName: "sandbox", RestartPolicy: policy, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Image: "test/program:v1", Args: args}},
		},
	}
}

// start hands the pod to the node, as the watch would.
func (b *bench) start(pod *corev1.Pod) *worker {
	b.t.Helper()
	if err := b.client.Tracker().Add(pod); err != nil {
		b.t.Fatal(err)
	}
	b.node.podChanged(pod)
	return b.node.worker(pod.Namespace, pod.Name)
}

// get is the pod on the server.
func (b *bench) get(name string) *corev1.Pod {
	b.t.Helper()
	pod, err := b.client.CoreV1().Pods("demo").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return pod
}

// await polls until ok, and shows the pod if that takes too long.
func (b *bench) await(name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		pod := b.get(name)
		if ok(pod) {
			return pod
		}
		if time.Now().After(deadline) {
			status, _ := json.MarshalIndent(pod.Status, "", "  ")
			b.t.Fatalf("pod %s is not %s:\n%s", name, what, status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// delete does what the API server does on a graceful deletion, and returns when the
// node has requested the final deletion of the object.
func (b *bench) delete(name string, grace int64) {
	b.t.Helper()
	pod := b.get(name)
	now := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	b.node.podChanged(pod)
	deadline := time.Now().Add(time.Minute)
	for !b.removed(name) {
		if time.Now().After(deadline) {
			b.t.Fatalf("the node does not remove pod %s", name)
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.node.podGone(pod)
}

func (b *bench) removed(name string) bool {
	for _, action := range b.client.Actions() {
		if d, ok := action.(interface{ GetName() string }); ok && action.GetVerb() == "delete" && d.GetName() == name {
			return true
		}
	}
	return false
}

// log is the container's log of a run.
func (b *bench) log(w *worker, run int32) string {
	b.t.Helper()
	var out strings.Builder
	if err := copyLog(b.t.Context(), &out, func() {}, logPath(w.logs, "c", run), nil, logOptions{tailLines: -1, limitBytes: -1}); err != nil {
		b.t.Fatal(err)
	}
	return out.String()
}

// awaitLog polls until the log of the container's first run is exactly want.
func (b *bench) awaitLog(w *worker, want string) {
	b.t.Helper()
	b.await(w.key.Name, "running", func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Running != nil
	})
	deadline := time.Now().Add(time.Minute)
	for b.log(w, 0) != want {
		if time.Now().After(deadline) {
			b.t.Fatalf("log of %s: %q, want %q", w.key, b.log(w, 0), want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// seen returns the events so far.
func (b *bench) seen() []string {
	var list []string
	for {
		select {
		case e := <-b.events.Events:
			list = append(list, e)
		default:
			return list
		}
	}
}

func hasEvent(events []string, parts ...string) bool {
	return slices.ContainsFunc(events, func(e string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e, p) })
	})
}
