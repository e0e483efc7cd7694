//go:build !race

package main

// The race detector takes many times the memory.

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoytest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

const (
	// The memory that an interceptor may use at its peak, in MB: under load, and with
	// manyObjects and an Envoy that has them all. The limits are 60 and 200, which make
	// bench-interceptor measures. Beside other tests the garbage collector runs later: the
	// first limit, of which 56 are used on a quiet machine, is ten higher here.
	mostMBWithFew  = 70
	mostMBWithMany = 200
	// mostMBOfEnvoy is the memory that this Envoy may use, once it has returned to the
	// kernel what its start took. The limit is 900, which make bench-interceptor measures.
	mostMBOfEnvoy = 950
	manyObjects   = 10000
	// allocated is how many bytes requests allocate meanwhile: several times what
	// the interceptor may keep of them.
	allocated = 400e6
)

func TestMemoryUnderLoadWithFewObjects(t *testing.T) {
	m := newMeasured(t, 10, "", ok)
	before := m.metric("go_memstats_alloc_bytes_total")
	const clients = 64
	var over atomic.Bool
	defer over.Store(true)
	ended := make(chan error, clients)
	for range clients {
		go func() { ended <- m.load(&over) }()
	}
	m.eventually("the requests have allocated enough", func() bool { return m.metric("go_memstats_alloc_bytes_total") > before+allocated })
	over.Store(true)
	for range clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	m.judge(mostMBWithFew)
}

func TestMemoryWithManyObjectsAndAnEnvoy(t *testing.T) {
	m := newMeasured(t, manyObjects, "", ok)
	text, err := envoy.Bootstrap(envoy.BootstrapOptions{XDSAddress: fmt.Sprint("127.0.0.1:", m.ports["xds-port"]), AdminAddress: fmt.Sprint("127.0.0.1:", m.ports["envoy-admin"])})
	if err != nil {
		t.Fatal(err)
	}
	e := envoytest.Start(t, text)
	m.eventually("the Envoy serves the last object", func() bool {
		_, err := m.get(http.DefaultClient, m.ports["kedify-proxy-port"], "/", hostOf(manyObjects-1))
		return err == nil
	})
	m.judge(mostMBWithMany)
	var taken float64
	e.Wait(fmt.Sprint("memory of at most ", mostMBOfEnvoy, " MB"), func() error {
		if taken = memoryMB(t, e.Pid(), "VmRSS"); taken > mostMBOfEnvoy {
			return fmt.Errorf("%.0f MB", taken)
		}
		return nil
	})
	t.Logf("the Envoy has %.0f MB", taken)
	// A cluster has counters of requests from its first one on.
	app := fmt.Sprintf("cluster.%s/%s/%[2]s-", namespaceOf(manyObjects-1), nameOf(manyObjects-1))
	if n := e.Stat(app+"stable.upstream_rq_total") + e.Stat(app+"canary.upstream_rq_total"); n != 1 {
		t.Errorf("Envoy has counted %d requests to %s*", n, app)
	}
}

// measured is an interceptor in a process of its own, with an API server that has
// objects for it.
type measured struct {
	t     *testing.T
	cmd   *exec.Cmd
	ports map[string]int
	out   *output
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// newMeasured starts an interceptor that serves n objects, each with two Services
// of one endpoint, which is the same application for all. It speaks HTTP/1.1 and HTTP/2;
// the appProtocol of its Services may be empty.
func newMeasured(t *testing.T, n int, appProtocol string, answer http.HandlerFunc, environment ...string) *measured {
	application := httptest.NewUnstartedServer(answer)
	application.Config.Protocols = new(http.Protocols)
	application.Config.Protocols.SetHTTP1(true)
	application.Config.Protocols.SetUnencryptedHTTP2(true)
	application.Start()
	t.Cleanup(func() { application.CloseClientConnections(); application.Close() })
	at := netip.MustParseAddrPort(application.Listener.Addr().String())
	api := apiservertest.New(t)
	api.Serve("core", apiservertest.Version{Name: "v1", Kinds: map[string]string{"Service": "services"}})
	api.Serve("discovery.k8s.io", apiservertest.Version{Name: "v1", Kinds: map[string]string{"EndpointSlice": "endpointslices"}})
	api.Serve("http.keda.sh", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"HTTPScaledObject": "httpscaledobjects"}})
	for i := range n {
		putApp(api, i, at, appProtocol)
	}
	flags, of := ports(t)
	var envoyPort, adminPort uint16
	freeport.Set(t, &envoyPort, &adminPort)
	of["kedify-proxy-port"], of["envoy-admin"] = int(envoyPort), int(adminPort)
	cmd, out := process(t, append(flags, fmt.Sprint("--kedify-proxy-port=", envoyPort), "--kedify-proxy-address=127.0.0.1", "--fallback-service=")...)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(api.Kubeconfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	// The memory settings in the environment of the tests are not for the interceptor, and
	// neither is this machine's number of processors: each takes memory of its own.
	// Beside other tests, a thousand connections can take longer than the default of 500 ms.
	cmd.Env = append(cmd.Env, "KUBECONFIG="+config, "GOGC=", "GOMEMLIMIT=", "GOMAXPROCS=2", "KEDA_HTTP_CONNECT_TIMEOUT=1m")
	cmd.Env = append(cmd.Env, environment...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	m := &measured{t, cmd, of, out}
	m.eventually("ready", func() bool { return code(of["admin-port"], "/readyz") == http.StatusOK })
	return m
}

func nameOf(i int) string { return fmt.Sprintf("app-%05d", i) }

func hostOf(i int) string { return nameOf(i) + ".example.com" }

func namespaceOf(i int) string { return fmt.Sprint("demo-", i%10) }

// putApp makes an HTTPScaledObject with its Services and EndpointSlices.
func putApp(api *apiservertest.Server, i int, at netip.AddrPort, appProtocol string) {
	namespace := namespaceOf(i)
	name, port, target, portName := nameOf(i), int32(80), int32(at.Port()), "http"
	split := []weightedbackends.Backend{{Service: name + "-stable", Weight: 80}, {Service: name + "-canary", Weight: 20}}
	for _, side := range split {
		api.PutObject("services", &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: side.Service},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: port, AppProtocol: &appProtocol}}},
		})
		api.PutObject("endpointslices", &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: side.Service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: side.Service},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &target}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.Addr().String()}}},
		})
	}
	api.PutObject("httpscaledobjects", &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(int64(i), 0),
			Annotations: map[string]string{weightedbackends.Annotation: weightedbackends.Format(split)},
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{hostOf(i)},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: split[0].Service, Port: &port},
		},
	})
}

func (m *measured) eventually(what string, is func() bool) {
	m.t.Helper()
	for end := time.Now().Add(4 * patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("never: %s\n%s", what, m.out)
		}
	}
}

// get returns the body of an answer for a host at a port; any code but 200 is an error.
func (m *measured) get(client *http.Client, port int, path, host string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return nil, err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s: %d %s", host, path, response.StatusCode, body)
	}
	return body, err
}

// load sends one request after the other by one connection.
func (m *measured) load(over *atomic.Bool) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: 2 * patience, Transport: transport}
	for !over.Load() {
		if _, err := m.get(client, m.ports["proxy-port"], "/", hostOf(3)); err != nil {
			return err
		}
	}
	return nil
}

func (m *measured) metric(name string) float64 {
	m.t.Helper()
	page, err := m.get(http.DefaultClient, m.ports["metrics-port"], "/metrics", "")
	if err != nil {
		m.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n"+name+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		m.t.Fatalf("the metric %s: %v", name, err)
	}
	return value
}

// judge fails when the interceptor has used more than most MB at any time.
func (m *measured) judge(most float64) {
	m.t.Helper()
	if peak := m.memoryMB("VmHWM"); peak > most {
		m.t.Errorf("the interceptor has taken %.0f MB, expected %.0f at most; its heap has %.0f MB alive now", peak, most, m.metric("go_memstats_heap_alloc_bytes")/1e6)
	} else {
		m.t.Logf("the interceptor has taken %.0f MB", peak)
	}
}

// memoryMB returns the interceptor's memory by the kernel's name: VmRSS is what it takes
// now, and VmHWM the most that it has taken.
func (m *measured) memoryMB(name string) float64 {
	m.t.Helper()
	return memoryMB(m.t, m.cmd.Process.Pid, name)
}

// memoryMB returns a figure of a process's memory, in MB.
func memoryMB(t *testing.T, pid int, name string) float64 {
	t.Helper()
	file := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	text, _, _ := strings.Cut(rest, " kB")
	kB, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatalf("%s in %s: %v", name, file, err)
	}
	return kB * 1024 / 1e6
}
