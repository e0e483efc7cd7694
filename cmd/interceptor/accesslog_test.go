package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// When what reads the standard output is gone, lines of the access log are lost and counted,
// and the interceptor serves on.
func TestStandardOutputThatIsClosed(t *testing.T) {
	free, of := ports(t)
	cmd, out := process(t, append(free, "--access-log=all", "--drain-delay=0s")...)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, _ = reader.Close(), writer.Close()
	eventually(t, "healthy", out, func() bool { return code(of["admin-port"], "/healthz") == http.StatusOK })
	if got := code(of["proxy-port"], "/"); got != http.StatusServiceUnavailable {
		t.Fatalf("answered %d, want 503", got)
	}
	eventually(t, "the lost line is counted", out, func() bool {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", of["metrics-port"]))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return strings.Contains(string(text), "interceptor_access_log_lines_dropped_total 1\n")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0\n%s", err, out)
	}
}
