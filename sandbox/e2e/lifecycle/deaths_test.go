package lifecycle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// A test run whose tests pass fails all the same if a component or a shared container
// has ended without a test having announced it. The run names what ended, and keeps the
// logs.
func TestDeaths(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "killing.test")
	build := exec.Command("go", "test", "-c", "-o", program, "./testdata/killing")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, output)
	}
	run := func(test string) (code int, output, artifacts string) {
		artifacts = t.TempDir()
		cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^"+test+"$")
		cmd.Env = append(os.Environ(), "E2E_ARTIFACTS="+artifacts, "SANDBOX=", "KEEP_SANDBOX=", "XDG_STATE_HOME="+t.TempDir())
		text, err := cmd.CombinedOutput()
		code, err = cluster.ExitCode(err)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "--- PASS: "+test+" ") {
			t.Errorf("the test did not pass by itself:\n%s", text)
		}
		return code, string(text), filepath.Join(artifacts, "killing")
	}
	for test, want := range map[string]string{
		"TestKillEtcd":        "component etcd died 1 times during the tests and no test stopped it; the last time it ended with signal: killed",
		"TestKillInterceptor": "container interceptor of pod keda/keda-add-ons-http-interceptor-",
		"TestKillKedifyProxy": "of pod killkedifyproxy-",
	} {
		t.Run(test, func(t *testing.T) {
			code, output, artifacts := run(test)
			if code != 1 || !strings.Contains(output, want) {
				t.Errorf("exit code %d, want 1 and %q:\n%s", code, want, output)
			}
			if !strings.Contains(output, artifacts) {
				t.Errorf("it does not name %s:\n%s", artifacts, output)
			}
			for _, file := range []string{"status.json", "logs/etcd.log", "logs/kube-apiserver.log", "cluster/pods.yaml", "cluster/events.yaml"} {
				if info, err := os.Stat(filepath.Join(artifacts, file)); err != nil || info.Size() == 0 {
					t.Errorf("%s was not kept: %v", file, err)
				}
			}
			logs, err := filepath.Glob(filepath.Join(artifacts, "cluster", "logs", "keda_*interceptor*.log"))
			if err != nil || len(logs) < 2 {
				t.Errorf("logs of interceptors: %v (%v)", logs, err)
			}
		})
	}
}
