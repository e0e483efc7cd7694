package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is how long the API server may take to answer.
const patience = 2 * time.Minute

// install applies the objects of a file, again and again until the API server takes
// them.
func install(ctx context.Context, file string) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		cmd := exec.CommandContext(ctx, "/bin/kubectl", "apply", "--server-side", "--force-conflicts",
			"--namespace=argo-rollouts", "--validate=ignore", "--filename="+file)
		output, err := cmd.CombinedOutput()
		if err == nil {
			return true, nil
		}
		if text := strings.TrimSpace(string(output)); text != last {
			fmt.Fprintln(os.Stderr, text)
			last = text
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("applying %s: %w; the last answer: %s", file, err, last)
	}
	return nil
}
