// Package artifacts keeps the objects, as YAML, and the logs of a failed run of
// end-to-end tests.
package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// Variable is the environment variable that names the parent directory of Dir's
// result.
const Variable = "E2E_ARTIFACTS"

// Dir returns the directory for a failed run of a package: a subdirectory of the one
// that $E2E_ARTIFACTS names, or of sandbox/e2e-failed in the repository.
func Dir(name string) (string, error) {
	root := os.Getenv(Variable)
	if root == "" {
		repository, err := build.FindRepository()
		if err != nil {
			return "", fmt.Errorf("no place for what a failed run leaves: %w; name one in %s", err, Variable)
		}
		root = filepath.Join(repository, "sandbox", "e2e-failed")
	}
	return filepath.Abs(filepath.Join(root, name))
}

// kinds are the kinds of objects that are kept.
var kinds = []string{
	"rollouts.argoproj.io", "analysisruns.argoproj.io", "experiments.argoproj.io", "replicasets.apps", "pods",
	"httpscaledobjects.http.keda.sh", "services", "endpointslices.discovery.k8s.io", "events",
}

// Command makes a command that runs in the sandbox.
type Command func(ctx context.Context, args ...string) (*exec.Cmd, error)

// Keep writes the objects of a namespace to dir, a file for each kind, and the logs
// of its pods to dir/logs, a file for each pod; an empty namespace means all of them.
// It keeps what it can get, and returns the errors of the rest.
func Keep(ctx context.Context, command Command, dir, namespace string) error {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return err
	}
	k := keeper{command, dir}
	of := []string{"--all-namespaces"}
	if namespace != "" {
		of = []string{"--namespace", namespace}
	}
	var all error
	for _, kind := range kinds {
		name, _, _ := strings.Cut(kind, ".")
		all = errors.Join(all, k.write(ctx, name+".yaml", append([]string{"get", kind, "--output", "yaml"}, of...)...))
	}
	pods, err := k.kubectl(ctx, append([]string{"get", "pods", "--output", `jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.status.containerStatuses[*].restartCount}{"\n"}{end}`}, of...)...)
	if err != nil {
		return errors.Join(all, err)
	}
	for line := range strings.Lines(string(pods)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		log := []string{"logs", "--namespace", fields[0], fields[1], "--all-containers", "--prefix", "--timestamps"}
		file := filepath.Join("logs", fields[0]+"_"+fields[1])
		if err := k.write(ctx, file+".log", log...); err != nil && !strings.Contains(err.Error(), "(NotFound)") { // the pod has just gone
			all = errors.Join(all, err)
		}
		if strings.Trim(strings.Join(fields[2:], ""), "0") != "" {
			// The error is ignored: a container of the pod may have no previous run.
			_ = k.write(ctx, file+"-previous.log", append(log, "--previous")...)
		}
	}
	return all
}

type keeper struct {
	command Command
	dir     string
}

func (k keeper) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd, err := k.command(ctx, append([]string{"kubectl", "--request-timeout=20s"}, args...)...)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
		return stdout.Bytes(), err
	}
	return stdout.Bytes(), nil
}

// write keeps what kubectl prints, even when it then fails.
func (k keeper) write(ctx context.Context, file string, args ...string) error {
	text, err := k.kubectl(ctx, args...)
	if len(text) == 0 {
		return err
	}
	return errors.Join(err, os.WriteFile(filepath.Join(k.dir, file), text, 0o644))
}
