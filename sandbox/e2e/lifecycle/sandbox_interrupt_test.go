package lifecycle

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Ctrl-C during `up`, whenever it comes, leaves neither a process nor a file.
func TestInterruptedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		// appeared is a file whose appearance says how far `up` is.
		appeared string
		// started is whether there are processes by then.
		started bool
		signal  syscall.Signal
	}{
		"preparing":           {appeared: ".rollouts-sandbox", signal: syscall.SIGINT},
		"first process":       {appeared: "pid", started: true, signal: syscall.SIGINT},
		"API server starting": {appeared: "logs/kube-apiserver.log", started: true, signal: syscall.SIGINT},
		"asked to end":        {appeared: "logs/etcd.log", started: true, signal: syscall.SIGTERM},
		"terminal has gone":   {appeared: "control.sock", started: true, signal: syscall.SIGHUP},
		"control plane is up": {appeared: "logs/kube-scheduler.log", started: true, signal: syscall.SIGINT},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			var stderr bytes.Buffer
			up := u.command(t.Context(), "up", "--bare", "--name", "cut")
			up.Stderr = &stderr
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- up.Wait() }()
			eventually(t, 2*time.Minute, func() string {
				if _, err := os.Lstat(filepath.Join(u.dir("cut"), tc.appeared)); err != nil {
					return err.Error()
				}
				return ""
			})
			var was inside
			if tc.started {
				was = insideOf(t, u.dir("cut"))
			}
			if err := up.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			select {
			case err := <-ended:
				if !errors.As(err, &exit) || exit.ExitCode() != 130 {
					t.Errorf("interrupted `up` ended with %v, want exit code 130", err)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("`up` goes on after the signal")
			}
			if !strings.Contains(stderr.String(), "nothing is left behind") {
				t.Errorf("it does not say that nothing is left:\n%s", stderr.String())
			}
			nothingLeft(t, u.dir("cut"), was)
			if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
				t.Errorf("%s is still there (%v)", u.root(), err)
			}
		})
	}
}
