package lifecycle

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// Two sandboxes are used side by side, one is taken down, then the other.
func TestSideBySide(t *testing.T) {
	u := newUser(t)
	var wait sync.WaitGroup
	for _, name := range []string{"left", "right"} {
		wait.Go(func() {
			if o := u.run(t, "up", "--bare", "--name", name); o.code != 0 {
				t.Errorf("sandbox up --name %s: exit code %d\n%s", name, o.code, o.stderr)
			}
		})
	}
	wait.Wait()
	if t.Failed() {
		t.FailNow()
	}
	left, right := insideOf(t, u.dir("left")), insideOf(t, u.dir("right"))

	t.Run("status", func(t *testing.T) { testStatus(t, u) })
	t.Run("exec", func(t *testing.T) { testExec(t, u) })
	t.Run("component", func(t *testing.T) { testComponent(t, u) })

	t.Run("apart", func(t *testing.T) {
		u.must(t, "exec", "--name", "left", "--", "kubectl", "create", "namespace", "only-left")
		if names := u.must(t, "exec", "--name", "right", "--", "kubectl", "get", "namespaces", "-o", "name"); strings.Contains(names, "only-left") {
			t.Errorf("a namespace made in one sandbox is in the other:\n%s", names)
		}
	})
	t.Run("up again", func(t *testing.T) {
		u.refused(t, []string{"up", "--bare", "--name", "left"}, "is running already", "sandbox down --name left")
	})

	u.must(t, "down", "--name", "left")
	nothingLeft(t, u.dir("left"), left)
	u.refused(t, []string{"status", "--name", "left"}, "is not running", "sandbox up")
	u.refused(t, []string{"exec", "--name", "left", "--", "true"}, "is not running")
	if said := u.must(t, "down", "--name", "left"); !strings.Contains(said, "there is no sandbox") {
		t.Errorf("the second down says %q", said)
	}

	u.must(t, "exec", "--name", "right", "--", "kubectl", "get", "--raw", "/readyz")
	// A sandbox was killed: its status says so, and down tidies up.
	if err := syscall.Kill(right.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() string { return strings.Join(right.processes(t), "\n") })
	u.refused(t, []string{"status", "--name", "right"}, "has ended unexpectedly", "sandbox down")
	u.must(t, "down", "--name", "right")
	nothingLeft(t, u.dir("right"), right)
	if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
		t.Errorf("%s is still there after the last sandbox (%v)", u.root(), err)
	}
}

func testStatus(t *testing.T, u user) {
	text := u.must(t, "status", "--name", "left")
	for _, part := range append([]string{"sandbox left: up", "node sandbox: Ready", "sandbox shell --name left"}, cluster.Components()...) {
		if !strings.Contains(text, part) {
			t.Errorf("status does not say %q:\n%s", part, text)
		}
	}
	var status cluster.Status
	if err := json.Unmarshal([]byte(u.must(t, "status", "--name", "left", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if status.Phase != cluster.PhaseUp || status.Node != "Ready" || len(status.Addons) != 0 || status.Dir != u.dir("left") {
		t.Errorf("status: %+v", status)
	}
	var names []string
	for _, c := range status.Components {
		names = append(names, c.Name)
		if c.State != cluster.StateRunning || c.PID == 0 || c.Deaths != 0 {
			t.Errorf("component: %+v", c)
		}
	}
	if diff := cmp.Diff(cluster.Components(), names); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	u.refused(t, []string{"status", "--name", "left", "-o", "yaml"}, `--output "yaml"`)
}

func testExec(t *testing.T, u user) {
	in := func(args ...string) []string { return append([]string{"exec", "--name", "left", "--"}, args...) }
	for name, tc := range map[string]struct {
		args   []string
		input  string
		want   outcome
		stderr string
	}{
		"success":             {args: in("true")},
		"exit code":           {args: in("sh", "-c", "exit 42"), want: outcome{code: 42}},
		"signal":              {args: in("sh", "-c", "kill -9 $$"), want: outcome{code: 137}},
		"streams":             {args: in("sh", "-c", "cat; echo aside >&2"), input: "through", want: outcome{stdout: "through", stderr: "aside\n"}},
		"arguments as given":  {args: in("printf", "%s|", "a b", "", "--name", "c"), want: outcome{stdout: "a b||--name|c|"}},
		"kubeconfig":          {args: in("sh", "-c", "echo $KUBECONFIG"), want: outcome{stdout: u.dir("left") + "/kubeconfig\n"}},
		"kubectl's exit code": {args: in("kubectl", "get", "namespace", "nothing"), want: outcome{code: 1}, stderr: `"nothing" not found`},
		"no such command":     {args: in("no-such-command"), want: outcome{code: 1}, stderr: "no-such-command"},
	} {
		t.Run(name, func(t *testing.T) {
			got := u.runWithInput(t, tc.input, tc.args...)
			if tc.stderr != "" {
				if !strings.Contains(got.stderr, tc.stderr) {
					t.Errorf("it does not say %q: %s", tc.stderr, got.stderr)
				}
				got.stderr = ""
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func testComponent(t *testing.T, u user) {
	state := func(name string) string {
		var status cluster.Status
		o := u.run(t, "status", "--name", "left", "-o", "json")
		if err := json.Unmarshal([]byte(o.stdout), &status); err != nil {
			t.Fatalf("%v\n%s%s", err, o.stdout, o.stderr)
		}
		for _, c := range status.Components {
			if c.Name == name {
				return c.State
			}
		}
		return "missing"
	}
	ready := []string{"exec", "--name", "left", "--", "kubectl", "get", "--raw", "/readyz", "--request-timeout=5s"}

	u.must(t, "component", "stop", cluster.APIServer, "--name", "left")
	if got := state(cluster.APIServer); got != cluster.StateStopped {
		t.Errorf("state after stop: %s", got)
	}
	if o := u.run(t, ready...); o.code == 0 {
		t.Errorf("the API server was stopped, and answers %q", o.stdout)
	}
	if o := u.run(t, "status", "--name", "left"); !strings.Contains(o.stdout, "Stopped") {
		t.Errorf("status does not say so: %s", o.stdout)
	}
	u.must(t, "component", "start", cluster.APIServer, "--name", "left")
	u.must(t, ready...)
	if got := state(cluster.APIServer); got != cluster.StateRunning {
		t.Errorf("state after start: %s", got)
	}

	// From inside the sandbox, and with SIGKILL, which does not count as a death.
	u.must(t, "exec", "--name", "left", "--", "sandbox", "component", "stop", "--kill", cluster.Scheduler)
	if got := state(cluster.Scheduler); got != cluster.StateStopped {
		t.Errorf("state after stop --kill: %s", got)
	}
	u.must(t, "exec", "--name", "left", "--", "sandbox", "component", "start", cluster.Scheduler)
	if got := state(cluster.Scheduler); got != cluster.StateRunning {
		t.Errorf("state after start: %s", got)
	}

	u.refused(t, []string{"component", "stop", "kubelet", "--name", "left"}, `no component "kubelet"`, cluster.Node)
}

func TestBadNames(t *testing.T) {
	u := newUser(t)
	u.refused(t, []string{"up", "--name", "../left"}, `sandbox name "../left"`, "lower-case letters")
	if _, err := os.Lstat(u.root()); !os.IsNotExist(err) {
		t.Errorf("a refused name has left something in %s", u.root())
	}
	// A directory with other files is neither used nor removed.
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/thesis.txt", []byte("years"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.refused(t, []string{"up", "--bare", "--state", dir}, "is not empty and not a sandbox's", "--state")
	u.refused(t, []string{"down", "--state", dir}, "not a sandbox's")
	if content, err := os.ReadFile(dir + "/thesis.txt"); err != nil || string(content) != "years" {
		t.Errorf("the file in the directory: %q, %v", content, err)
	}
}
