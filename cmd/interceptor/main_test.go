package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/freeport"
)

// patience bounds each wait for something that has to come.
const patience = time.Minute

// asInterceptor is the variable that makes this test binary run as the interceptor.
const asInterceptor = "TEST_AS_INTERCEPTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asInterceptor) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// nobody is a kubeconfig of an API server that is not there.
const nobody = `apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a}]
contexts: [{name: a, context: {cluster: a, user: a}}]
`

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

// process returns the interceptor as a process of its own, not yet started.
func process(t *testing.T, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*patience)
	t.Cleanup(cancel)
	out := &output{}
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asInterceptor+"=1", "KUBECONFIG="+config)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// ports returns flags that put all listeners on ports that are free, and the
// ports by flag.
func ports(t *testing.T) (flags []string, of map[string]int) {
	t.Helper()
	of = make(map[string]int)
	for _, flag := range []string{"proxy-port", "admin-port", "metrics-port", "fallback-port", "xds-port"} {
		of[flag] = int(freeport.Get(t))
		flags = append(flags, fmt.Sprintf("--%s=%d", flag, of[flag]))
	}
	return flags, of
}

// code returns the status code of the answer, 0 if there is none.
func code(port int, path string) int {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func eventually(t *testing.T, what string, out *output, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s\n%s", what, out)
		}
	}
}

// started starts an interceptor, and waits until it listens.
func started(t *testing.T, flags ...string) (*exec.Cmd, map[string]int, *output) {
	t.Helper()
	free, of := ports(t)
	cmd, out := process(t, append(free, flags...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, "healthy", out, func() bool { return code(of["admin-port"], "/healthz") == http.StatusOK })
	return cmd, of, out
}

func TestWithoutAPIServerItLivesAndIsNotReady(t *testing.T) {
	cmd, of, out := started(t, "--drain-delay=0s")
	eventually(t, "said that the API server does not answer", out, func() bool { return strings.Contains(out.String(), "the API server does not answer") })
	for what, port := range map[string]struct {
		flag, path string
		code       int
	}{
		"not ready": {"admin-port", "/readyz", http.StatusServiceUnavailable},
		"request":   {"proxy-port", "/", http.StatusServiceUnavailable},
		"metrics":   {"metrics-port", "/metrics", http.StatusOK},
	} {
		if got := code(of[port.flag], port.path); got != port.code {
			t.Errorf("%s: %d, want %d", what, got, port.code)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0\n%s", err, out)
	}
	if n := strings.Count(out.String(), "the API server does not answer"); n != 1 {
		t.Errorf("said %d times, want once\n%s", n, out)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	cmd, of, out := started(t, "--drain-delay=10m")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "draining", out, func() bool { return strings.Contains(out.String(), "draining") })
	// A client that does not know of the draining is answered.
	if got := code(of["proxy-port"], "/"); got != http.StatusServiceUnavailable {
		t.Errorf("a request while draining: %d, want the 503 of a table that is not there", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out.String(), "second signal") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().(*net.TCPAddr).Port
	free, _ := ports(t)
	cmd, out := process(t, append(free, fmt.Sprintf("--proxy-port=%d", taken))...)
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), fmt.Sprintf("port %d (proxy)", taken)) {
		t.Errorf("%v\n%s", err, out)
	}
}
