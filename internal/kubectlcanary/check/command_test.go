package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig writes a kubeconfig whose context has a namespace.
func kubeconfig(t *testing.T, server, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "` + server + `"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: here, context: {cluster: c, user: u, namespace: ` + namespace + `}}
- {name: elsewhere, context: {cluster: c, user: u, namespace: elsewhere}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func execute(args ...string) (string, error) {
	cmd := NewCommand("v1.2.3")
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestCommand(t *testing.T) {
	a := serve(t, healthy())
	config := kubeconfig(t, a.URL, "shop")

	out, err := execute("--kubeconfig", config)
	if err != nil || ExitCode(err) != 0 {
		t.Errorf("a healthy cluster: %v\n%s", err, out)
	}
	if !strings.Contains(out, "Rollout shop/demo") || strings.Contains(out, "✗ ") || strings.Contains(out, "\x1b[") || !strings.Contains(out, " 0 !  0 ✗\n") {
		t.Errorf("got %s", out)
	}

	out, err = execute("--kubeconfig", config, "-n", "shop", "-o", "json", "gone")
	if !errors.Is(err, ErrFailed) || ExitCode(err) != 1 {
		t.Errorf("a Rollout that does not exist: %v", err)
	}
	var report struct {
		Results []Result
		Failed  bool
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if last := report.Results[len(report.Results)-1]; !report.Failed || last.Check != "rollout-found" || last.Status != Failure ||
		!strings.HasSuffix(last.Link, "/blob/v1.2.3/docs/how-to/troubleshooting.md#rollout-found") {
		t.Errorf("got %s", out)
	}

	// kubectl's connection flags override the kubeconfig.
	if out, err = execute("--kubeconfig", kubeconfig(t, "http://127.0.0.1:1", "shop"), "-s", a.URL, "demo"); err != nil {
		t.Errorf("-s: %v\n%s", err, out)
	}

	out, err = execute("--kubeconfig", config, "--context", "elsewhere")
	if err != nil || !strings.Contains(out, "! rollout-found         Namespace elsewhere  no Rollout here uses kedify/http") {
		t.Errorf("another context: %v\n%s", err, out)
	}
}

func TestCommandUsage(t *testing.T) {
	a := serve(t, healthy())
	config := kubeconfig(t, a.URL, "shop")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"output":             {[]string{"-o", "yaml"}, `--output "yaml": want text or json`},
		"timeout":            {[]string{"--timeout", "0s"}, "--timeout 0s"},
		"timeout of no kind": {[]string{"--timeout", "soon"}, "soon"},
		"two Rollouts":       {[]string{"a", "b"}, "at most 1 arg"},
		"unknown flag":       {[]string{"--verbose"}, "--verbose"},
		"no kubeconfig":      {[]string{"--kubeconfig", config + "-gone"}, "no cluster to look at"},
		"no context":         {[]string{"--context", "gone"}, "gone"},
		"no cluster":         {[]string{"--kubeconfig", kubeconfig(t, "http://127.0.0.1:1", "shop")}, "cannot reach the API server at http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(append([]string{"--kubeconfig", config}, c.args...)...)
			if err == nil || ExitCode(err) != 2 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want exit code 2 and %q, got %v", c.says, err)
			}
			if out != "" {
				t.Errorf("printed %q: the caller prints errors, once", out)
			}
		})
	}
}
