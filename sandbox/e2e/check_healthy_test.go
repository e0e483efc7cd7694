package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// The check of a healthy cluster reports nothing but ✓: before a canary, in the middle
// of it, and after it.
func TestCheckHealthy(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	checktest.DeploySample(t, n)
	everything := []string{
		"controller-found", "controller-restarted", "controller-access",
		"plugin-registered", "plugin-location", "plugin-platform",
		"rollout-found", "rollout-config", "rollout-health",
		"services-exist", "service-selectors",
		"httpscaledobject-exists", "target-service", "annotation", "backends-ready",
		"scaledobject-min-replicas", "scaledobject-ready",
	}
	look := func(t *testing.T, moment string, more ...string) checktest.Report {
		t.Helper()
		report := checktest.AwaitHealthy(t, append([]string{checktest.Sample, "-n", n.Name}, more...)...)
		for _, check := range everything {
			if report.Status(check) != checktest.OK {
				t.Errorf("%s: check %s is %q, want it in the report and ok", moment, check, report.Status(check))
			}
		}
		return report
	}
	look(t, "before")
	checktest.StartSample(t, n)
	look(t, "at 20 %")

	t.Run("download", func(t *testing.T) {
		report := look(t, "with --download", "--download")
		if report.Status("plugin-download") != checktest.OK {
			t.Error("--download adds no plugin-download that is ok")
		}
	})
	t.Run("text", func(t *testing.T) {
		report := look(t, "as JSON")
		output, err := checktest.Run(t.Context(), "", checktest.Sample, "-n", n.Name)
		if err != nil {
			t.Fatal(err)
		}
		if output.ExitCode != 0 || strings.Count(output.Stdout, "\n✓ ") != len(report.Results) {
			t.Errorf("exit code %d, want 0 and %d lines with ✓:\n%s%s", output.ExitCode, len(report.Results), output.Stdout, output.Stderr)
		}
		for _, part := range []string{"Rollout " + n.Name + "/" + checktest.Sample + "\n", " 0 !  0 ✗\n"} {
			if !strings.Contains(output.Stdout, part) {
				t.Errorf("no %q in:\n%s", part, output.Stdout)
			}
		}
	})
	t.Run("every Rollout of the namespace", func(t *testing.T) {
		checktest.AwaitHealthy(t, "-n", n.Name)
	})

	n.Promote(checktest.Sample, "--full")
	n.AwaitHealthy(checktest.Sample, e2etest.Image("yellow"))
	n.AwaitSplit(checktest.Sample, e2etest.NoSplit)
	look(t, "after")
}

// A Rollout of one replica with maxSurge 0 gets its canary pod, since Argo Rollouts
// 1.10.1 ignores maxSurge if a traffic router splits: the check finds no fault. (A unit
// test therefore shows that `check` reports a ReplicaSet that maxSurge holds at 0.)
func TestCheckMaxSurgeZeroIsHealthy(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	app := e2etest.App{Canary: "maxSurge: 0\nmaxUnavailable: 1", Steps: "- setWeight: 20\n- pause: {}"}
	n.Apply(app.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.SetImage("app", e2etest.Image("red"))
	n.AwaitSplit("app", app.Split(20))
	checktest.AwaitHealthy(t, "app", "-n", n.Name)
}

// The check reports a Rollout that does not exist, and a namespace in which no Rollout
// uses the plugin.
func TestCheckNothingThere(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	for name, tc := range map[string]struct {
		args []string
		want checktest.Finding
	}{
		"no such Rollout": {
			args: []string{"absent", "-n", n.Name},
			want: checktest.Finding{Check: "rollout-found", Status: checktest.Failure, Object: "Rollout absent", Message: "does not exist", Remedy: "get rollouts"},
		},
		"no Rollout that uses the plugin": {
			args: []string{"-n", n.Name},
			want: checktest.Finding{Check: "rollout-found", Status: checktest.Warning, Message: "no Rollout here uses kedify/http", Remedy: "-n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nothing := func() {}
			checktest.Fault{Name: name, Make: nothing, Want: []checktest.Finding{tc.want}}.FindOnly(t, tc.args...)
		})
	}
}

// If the check cannot run, it prints no report, exits with code 2 and says why in one
// line.
func TestCheckCannotLook(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	kubeconfig := func(edit func(string) string) string {
		content, err := os.ReadFile(os.Getenv("KUBECONFIG"))
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir() + "/kubeconfig"
		if err := os.WriteFile(path, []byte(edit(string(content))), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		kubeconfig string
		args       []string
		says       []string
	}{
		"nobody listens": {
			kubeconfig: kubeconfig(func(s string) string { return strings.ReplaceAll(s, ":6443", ":6444") }),
			args:       []string{"-n", n.Name},
			says:       []string{"cannot reach the API server at https://10.244.0.1:6444", "connection refused", "--kubeconfig"},
		},
		"no such file": {
			kubeconfig: t.TempDir() + "/nothing",
			args:       []string{"-n", n.Name},
			says:       []string{"KUBECONFIG", "--kubeconfig"},
		},
		"no such context": {
			args: []string{"-n", n.Name, "--context", "elsewhere"},
			says: []string{"elsewhere"},
		},
		"credentials not accepted": {
			kubeconfig: kubeconfigWithToken(t, "not-a-token"),
			args:       []string{"-n", n.Name},
			says:       []string{"does not accept these credentials", "log in again"},
		},
		"unknown output": {
			args: []string{"-n", n.Name, "--output", "yaml"},
			says: []string{`--output "yaml"`, "text or json"},
		},
		"unknown flag": {
			args: []string{"-n", n.Name, "--downlaod"},
			says: []string{"--downlaod"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := checktest.Run(t.Context(), tc.kubeconfig, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			if output.ExitCode != 2 || output.Stdout != "" {
				t.Errorf("exit code %d, want 2 and no report\n%s", output.ExitCode, output.Stdout)
			}
			for _, part := range tc.says {
				if !strings.Contains(output.Stderr, part) {
					t.Errorf("it does not say %q: %s", part, output.Stderr)
				}
			}
			if strings.Count(strings.TrimSpace(output.Stderr), "\n") > 0 {
				t.Errorf("it says it on more than one line:\n%s", output.Stderr)
			}
		})
	}
}
