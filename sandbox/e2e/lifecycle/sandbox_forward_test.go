package lifecycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Service, and a pod that answers with its colour.
const forwardedService = `
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80, targetPort: 8080}
---
apiVersion: v1
kind: Service
metadata:
  name: two-ports
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80, targetPort: 8080}
    - {name: admin, port: 81, targetPort: 8080}
`

func forwardedPod(name, colour string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {app: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: argoproj/rollouts-demo:%s
      readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`, name, colour)
}

// `sandbox forward` serves a Service of the sandbox on an address of the host,
// whatever pods and addresses the Service has meanwhile.
func TestForward(t *testing.T) {
	u := newUser(t)
	u.must(t, "up", "--bare", "--with", "demo-app", "--name", "forward")
	apply := func(manifests string) {
		t.Helper()
		if o := u.runWithInput(t, manifests, "exec", "--name", "forward", "--", "kubectl", "apply", "-f", "-"); o.code != 0 {
			t.Fatalf("kubectl apply: %s%s", o.stdout, o.stderr)
		}
	}
	kubectl := func(args ...string) {
		t.Helper()
		u.must(t, append([]string{"exec", "--name", "forward", "--", "kubectl"}, args...)...)
	}
	apply(forwardedService + "---" + forwardedPod("one", "blue"))

	u.refused(t, []string{"forward", "nothing", "--name", "forward"}, "Service default/nothing", "not found")
	u.refused(t, []string{"forward", "two-ports", "--name", "forward"}, "80 (http), 81 (admin)", "default/two-ports:80")
	u.refused(t, []string{"forward", "web", "--name", "forward", "--listen", "8080"}, "--listen", "127.0.0.1:8080")
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	u.refused(t, []string{"forward", "web", "--name", "forward", "--listen", taken.Addr().String()}, "another program listens there")

	f := startForward(t, u, "default/web:http", "--name", "forward")
	f.answers(t, `"blue"`)
	testHalfClose(t, f.address)

	kubectl("delete", "pod", "one")
	f.refuses(t)
	apply(forwardedPod("two", "green"))
	f.answers(t, `"green"`)
	// The Service made anew has another address.
	kubectl("delete", "service", "web", "two-ports")
	f.refuses(t)
	apply(forwardedService)
	f.answers(t, `"green"`)

	f.interrupt(t)
	if conn, err := net.Dial("tcp4", f.address); err == nil {
		_ = conn.Close()
		t.Errorf("after Ctrl-C something still listens at %s", f.address)
	}

	// The sandbox goes down while the command runs.
	f = startForward(t, u, "web", "--name", "forward")
	u.must(t, "down", "--name", "forward")
	if err := <-f.ended; err == nil || !strings.Contains(f.stderr.String(), "the sandbox has gone down") {
		t.Errorf("after `sandbox down` it ended with %v and said %q", err, f.stderr.String())
	}
}

type forwarding struct {
	address string
	stderr  *strings.Builder
	process *os.Process
	ended   chan error
}

var forwardLine = regexp.MustCompile(`^http://(127\.0\.0\.1:\d+) leads to port 80 \(http\) of Service default/web; `)

// startForward runs `sandbox forward` until the test ends, and returns once it
// has printed the URL.
func startForward(t *testing.T, u user, args ...string) forwarding {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := u.command(ctx, append([]string{"forward"}, args...)...)
	f := forwarding{stderr: &strings.Builder{}, ended: make(chan error, 1)}
	cmd.Stderr = f.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.process = cmd.Process
	lines := bufio.NewScanner(stdout)
	// A command that prints nothing is killed, and the test fails with what it has
	// written to stderr.
	silent := time.AfterFunc(commandTimeout, func() { _ = cmd.Process.Kill() })
	lines.Scan()
	silent.Stop()
	text := lines.Text()
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		f.ended <- cmd.Wait()
	}()
	t.Cleanup(cancel)
	match := forwardLine.FindStringSubmatch(text)
	if match == nil {
		cancel()
		t.Fatalf("sandbox forward says %q, and ended with %v: %s", text, <-f.ended, f.stderr)
	}
	f.address = match[1]
	return f
}

// get makes one request on a connection of its own.
func (f forwarding) get() (string, error) {
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + f.address + "/color")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func (f forwarding) answers(t *testing.T, want string) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		if got, err := f.get(); err != nil || got != want {
			return fmt.Sprintf("answer %q, %v; want %s", got, err, want)
		}
		return ""
	})
}

// refuses waits until connections are accepted and reset.
func (f forwarding) refuses(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		got, err := f.get()
		if errors.Is(err, syscall.ECONNRESET) {
			return ""
		}
		return fmt.Sprintf("answer %q, %v; want a connection that is reset", got, err)
	})
}

// interrupt sends Ctrl-C, which has to end the command without an error.
func (f forwarding) interrupt(t *testing.T) {
	t.Helper()
	if err := f.process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("after Ctrl-C: %v\n%s", err, f.stderr)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end after Ctrl-C")
	}
}

// testHalfClose sends a request and closes the sending side: the answer arrives,
// and then the end of the connection.
func testHalfClose(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /color HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), `"blue"`) {
		t.Errorf("half-closed: answer %q, %v", answer, err)
	}
}
