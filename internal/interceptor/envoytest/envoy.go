package envoytest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long each wait for an Envoy may take, also for its start.
const patience = time.Minute

// Envoy is a running Envoy.
type Envoy struct {
	// Admin is the address of its admin listener, host:port.
	Admin string

	t       testing.TB
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// Start runs an Envoy with a bootstrap in JSON or YAML until the test ends or Stop is
// called. The bootstrap's admin listener may have port 0. Start returns once that
// listener answers, which needs no configuration from an xDS server. If the test fails,
// it shows the end of the Envoy's log.
func Start(t testing.TB, bootstrap []byte, arguments ...string) *Envoy {
	t.Helper()
	path, dir := Path(t), t.TempDir()
	config, admin := filepath.Join(dir, "bootstrap.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(config, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	e := &Envoy{t: t, log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	log, err := os.Create(e.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the Envoy has its own descriptor
	e.command = exec.Command(path, append([]string{
		"--config-path", config, "--admin-address-path", admin, "--disable-hot-restart", "--concurrency", "2",
	}, arguments...)...)
	e.command.Stdout, e.command.Stderr = log, log
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(e.ended)
		_ = e.command.Wait() // it ends by a signal
	}()
	t.Cleanup(func() {
		e.Stop()
		if t.Failed() {
			text, _ := os.ReadFile(e.log)
			t.Logf("Envoy's log:\n%s", tail(text, 16<<10))
		}
	})
	e.Wait("its admin listener", func() error {
		address, err := os.ReadFile(admin)
		if err != nil {
			return err
		}
		e.Admin = strings.TrimSpace(string(address))
		_, err = e.Get("/ready")
		return err
	})
	return e
}

// Stop kills the Envoy, as a lost machine would.
func (e *Envoy) Stop() {
	_ = e.command.Process.Kill() // it may have ended
	<-e.ended
}

// Pid returns the Envoy's process ID.
func (e *Envoy) Pid() int { return e.command.Process.Pid }

// Log returns what the Envoy has logged so far.
func (e *Envoy) Log() string {
	e.t.Helper()
	text, err := os.ReadFile(e.log)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}

// Get returns the body that the admin listener answers for a path such as "/clusters".
// It ignores the status code: /ready is 503 until the Envoy has all its configuration.
func (e *Envoy) Get(path string) (string, error) {
	client := http.Client{Timeout: patience}
	response, err := client.Get("http://" + e.Admin + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// Stat returns the value of a counter or gauge by its full name; 0 if there is none.
func (e *Envoy) Stat(name string) int {
	e.t.Helper()
	text, err := e.Get("/stats")
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(line, name+": "); is {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				e.t.Fatalf("statistic %s: %v", name, err)
			}
			return n
		}
	}
	return 0
}

// WaitReady waits until the Envoy has all its configuration and listens.
func (e *Envoy) WaitReady() {
	e.t.Helper()
	e.Wait("being ready", func() error {
		text, err := e.Get("/ready")
		if err == nil && strings.TrimSpace(text) != "LIVE" {
			err = fmt.Errorf("/ready says %q", text)
		}
		return err
	})
}

// Wait waits until done returns no error. It fails the test with the last error when a
// minute has passed or the Envoy ends.
func (e *Envoy) Wait(what string, done func() error) {
	e.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-e.ended:
			err = errors.Join(err, errors.New("the Envoy has ended"))
		case <-time.After(5 * time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		e.t.Fatalf("Envoy: waiting for %s: %v", what, err)
	}
}

func tail(text []byte, most int) []byte {
	return text[max(0, len(text)-most):]
}
