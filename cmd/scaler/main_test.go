package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// asScaler makes the test binary the scaler.
const asScaler = "TEST_AS_SCALER"

// patience bounds each wait for something that has to come.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asScaler) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// interceptor reports one HTTPScaledObject, ten times a second.
type interceptor struct {
	mu     sync.Mutex
	object loadreport.Object
}

func (i *interceptor) set(object loadreport.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.object = object
}

func (i *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != loadreport.Path {
		http.NotFound(w, r)
		return
	}
	for r.Context().Err() == nil {
		i.mu.Lock()
		message := loadreport.Message{Sources: []loadreport.Source{{ID: "1", Objects: []loadreport.Object{i.object}}}}
		i.mu.Unlock()
		if json.NewEncoder(w).Encode(message) != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// output is what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func newAPI(t *testing.T) *apiservertest.Server {
	api := apiservertest.New(t)
	api.Serve("http.keda.sh", apiservertest.Version{Name: "v1alpha1", Kinds: map[string]string{"HTTPScaledObject": "httpscaledobjects"}})
	api.Serve("discovery.k8s.io", apiservertest.Version{Name: "v1", Kinds: map[string]string{"EndpointSlice": "endpointslices"}})
	return api
}

// A scaler finds its interceptors, tells KEDA what they report, wakes an application up, and
// stops without an error for KEDA.
func TestScaler(t *testing.T) {
	reports := &interceptor{object: loadreport.Object{Namespace: "demo", Name: "web", Requests: 3, Active: 3}}
	reporting := httptest.NewServer(reports)
	t.Cleanup(func() {
		reporting.CloseClientConnections()
		reporting.Close()
	})
	host, port, err := net.SplitHostPort(strings.TrimPrefix(reporting.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	api := newAPI(t)
	target := 5
	api.PutObject("httpscaledobjects", &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{ScalingMetric: &httpv1alpha1.ScalingMetric{
			Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: &target},
		}},
	})
	api.PutObject("endpointslices", &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: "interceptors", Labels: map[string]string{discoveryv1.LabelServiceName: "interceptors"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}}},
	})
	p := start(t, api.Kubeconfig(), "--namespace=system", "--interceptor-service=interceptors", "--interceptor-port="+port)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	connection, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	keda := externalscaler.NewExternalScalerClient(connection)
	ref := &externalscaler.ScaledObjectRef{Namespace: "demo", Name: "scaled", ScalerMetadata: map[string]string{"httpScaledObject": "web"}}

	const metric = "http-demo-web-concurrency"
	eventually(t, p.out, func() error {
		answer, err := keda.GetMetricSpec(ctx, ref)
		if err == nil && (len(answer.GetMetricSpecs()) != 1 || answer.GetMetricSpecs()[0].GetMetricName() != metric || answer.GetMetricSpecs()[0].GetTargetSizeFloat() != 5) {
			err = fmt.Errorf("%v", answer)
		}
		return err
	})
	eventually(t, p.out, func() error {
		answer, err := keda.IsActive(ctx, ref)
		if err == nil && !answer.GetResult() {
			err = errors.New("not active")
		}
		return err
	})
	eventually(t, p.out, func() error {
		answer, err := keda.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref, MetricName: metric})
		if err == nil && (len(answer.GetMetricValues()) != 1 || answer.GetMetricValues()[0].GetMetricValueFloat() != 3) {
			err = fmt.Errorf("%v", answer)
		}
		return err
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := get(t, "http://"+p.health+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text := get(t, "http://"+p.metrics+"/metrics"); code != http.StatusOK || !strings.Contains(text, `scaler_requests_total{code="OK",method="GetMetrics"} 1`) {
		t.Errorf("%d, without the GetMetrics that was answered:\n%s", code, text)
	}

	stream, err := keda.StreamIsActive(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the first stream: %v, %v; want its end with OK", answer, err)
	}
	if stream, err = keda.StreamIsActive(ctx, ref); err != nil {
		t.Fatal(err)
	}
	reports.set(loadreport.Object{Namespace: "demo", Name: "web", Requests: 4, Active: 1, Held: 1})
	if answer, err := stream.Recv(); err != nil || !answer.GetResult() {
		t.Errorf("a request is held: %v, %v; want true", answer, err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v, want OK", err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0\n%s", err, p.out)
	}
}

// A scaler that has not seen the API server yet is alive, and not ready.
func TestWithoutAPIServer(t *testing.T) {
	api := apiservertest.New(t)
	api.SetFault(func(w http.ResponseWriter, _ *http.Request, _ apiservertest.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	p := start(t, api.Kubeconfig())
	eventually(t, p.out, func() error {
		response, err := http.Get("http://" + p.health + "/healthz")
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return err
	})
	if code, text := get(t, "http://"+p.health+"/readyz"); code != http.StatusInternalServerError {
		t.Errorf("/readyz: %d %s", code, text)
	}
}

// process is a scaler, with the addresses that it listens on.
type process struct {
	*exec.Cmd
	out                      *output
	address, health, metrics string
}

func start(t *testing.T, kubeconfig string, flags ...string) *process {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func() string { return "127.0.0.1:" + strconv.Itoa(int(freeport.Get(t))) }
	p := &process{out: new(output), address: at(), health: at(), metrics: at()}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(cancel)
	p.Cmd = exec.CommandContext(ctx, os.Args[0], append(flags, "--address="+p.address, "--health-address="+p.health, "--metrics-address="+p.metrics)...)
	p.Env = append(os.Environ(), asScaler+"=1", "KUBECONFIG="+config)
	p.Stdout, p.Stderr = p.out, p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// eventually waits until a check returns no error.
func eventually(t *testing.T, out *output, check func() error) {
	t.Helper()
	err := errors.New("not checked")
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("%v\n%s", err, out)
}

// A mistake in a flag stops the start with the flag's name.
func TestFlags(t *testing.T) {
	for flag, says := range map[string]string{
		"--log-level=loud":               "--log-level is \"loud\": set it to debug",
		"--namespace=":                   "--namespace is missing",
		"--interceptor-service=no name":  "--interceptor-service: the Service of interceptors",
		"--interceptor-port=100000":      "--interceptor-port",
		"--metrics-address=nowhere:port": "metrics server",
	} {
		t.Run(flag, func(t *testing.T) {
			api := newAPI(t)
			config := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(config, []byte(api.Kubeconfig()), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", config)
			cmd := command()
			cmd.SetArgs([]string{"--address=127.0.0.1:0", "--health-address=127.0.0.1:0", "--metrics-address=0", flag})
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %q", err, says)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"version"})
	if err := cmd.Execute(); err != nil || !strings.HasPrefix(out.String(), "scaler dev (commit unknown, go1.") {
		t.Errorf("%q %v", out.String(), err)
	}
}
