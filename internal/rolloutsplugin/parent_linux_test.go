package rolloutsplugin

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// roleVariable has the test's own binary act as one of the two processes of
// TestOnParentDeath.
const roleVariable = "ROLLOUTSPLUGIN_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "controller":
		controller()
	case "plugin":
		child()
	default:
		os.Exit(m.Run())
	}
}

// controller starts a plugin, with its own output, and waits for it.
func controller() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=plugin")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println("the plugin:", err)
	}
}

// child says when it watches its parent, and when that has died.
func child() {
	go OnParentDeath(context.Background(), func() {
		fmt.Println("gone")
		os.Exit(0)
	})
	// It watches once it has a descriptor of its parent; older kernels have none.
	for deadline := time.Now().Add(time.Minute); !holdsPIDFD() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("watching")
	time.Sleep(20 * time.Second)
	fmt.Println("its parent is taken to live on")
}

func holdsPIDFD() bool {
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return false
	}
	for _, path := range descriptors {
		if target, err := os.Readlink(path); err == nil && strings.Contains(target, "pidfd") {
			return true
		}
	}
	return false
}

// A process whose parent is killed is told of it.
func TestOnParentDeath(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=controller")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the plugin says %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	next("watching")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next("gone")
	_ = cmd.Wait() // it was killed
}
