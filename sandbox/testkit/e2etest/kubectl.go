package e2etest

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Kubectl runs kubectl on the namespace, as in Kubectl("get", "pods"), and
// returns what it printed to stdout.
func (n *Namespace) Kubectl(args ...string) string {
	n.t.Helper()
	return n.kubectl("", args...)
}

// Replace runs `kubectl replace` on the namespace. It repeats that after a conflict:
// kubectl reads the object and then writes it, and controllers may write its status in
// between.
func (n *Namespace) Replace(file string) {
	n.t.Helper()
	Eventually(n.t, Patience, "kubectl replace without a conflict", func(ctx context.Context) error {
		_, err := n.runKubectl(ctx, "", "replace", "-f", file)
		if err != nil && !strings.Contains(err.Error(), "(Conflict)") {
			n.t.Fatal(err)
		}
		return err
	})
}

// ArgoRollouts runs `kubectl argo rollouts` on the namespace, as in
// ArgoRollouts("promote", "app"), and returns what it printed to stdout.
func (n *Namespace) ArgoRollouts(args ...string) string {
	n.t.Helper()
	return n.kubectl("", append([]string{"argo", "rollouts"}, args...)...)
}

func (n *Namespace) kubectl(stdin string, args ...string) string {
	n.t.Helper()
	out, err := n.runKubectl(n.t.Context(), stdin, args...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

func (n *Namespace) runKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	// kubectl takes the flag at the end, too, and its plugins only there.
	line := slices.Concat(args, []string{"--namespace", n.Name})
	cmd := exec.CommandContext(ctx, "kubectl", line...)
	cmd.Env = n.environment()
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(line, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
