// Package checktest runs `kubectl canary check` as a person would, and
// compares what it finds with the faults that a test has made.
package checktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// runTimeout bounds one run; a download alone may take two minutes.
const runTimeout = 3 * time.Minute

// The statuses of results.
const (
	OK      = "ok"
	Warning = "warning"
	Failure = "failure"
)

// Result is one result of the report, as `-o json` has it.
type Result struct {
	Check   string `json:"check"`
	Status  string `json:"status"`
	Rollout string `json:"rollout"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	Link    string `json:"link"`
}

// Report is the outcome of one run.
type Report struct {
	Results []Result `json:"results"`
	Failed  bool     `json:"failed"`
	// ExitCode is the program's.
	ExitCode int `json:"-"`
}

// Output is what one run printed, and its exit code.
type Output struct {
	Stdout, Stderr string
	ExitCode       int
}

// Run runs `check` with the arguments; an empty kubeconfig means the
// administrator's.
func Run(ctx context.Context, kubeconfig string, args ...string) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"canary", "check"}, args...)...)
	if kubeconfig != "" {
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code, err := cluster.ExitCode(cmd.Run())
	if err != nil {
		return Output{}, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return Output{stdout.String(), stderr.String(), code}, nil
}

// Read runs `check -o json` and reads its report. A missing, malformed or inconsistent
// report is an error.
func Read(ctx context.Context, kubeconfig string, args ...string) (Report, error) {
	output, err := Run(ctx, kubeconfig, append(args, "-o", "json")...)
	if err != nil {
		return Report{}, err
	}
	decoder := json.NewDecoder(strings.NewReader(output.Stdout))
	decoder.DisallowUnknownFields()
	var report Report
	if err := decoder.Decode(&report); err != nil {
		return Report{}, fmt.Errorf("exit code %d, and no report: %w\n%s%s", output.ExitCode, err, output.Stdout, output.Stderr)
	}
	report.ExitCode = output.ExitCode
	return report, report.sound(output)
}

// sound returns an error unless the report has complete results that agree with its
// verdict and the exit code, and the output has nothing on stderr.
func (r Report) sound(output Output) error {
	failed := slices.ContainsFunc(r.Results, func(result Result) bool { return result.Status == Failure })
	code := 0
	if failed {
		code = 1
	}
	switch {
	case len(r.Results) == 0:
		return errors.New("the report is empty")
	case r.Failed != failed:
		return fmt.Errorf("the report says failed: %t, its results say %t", r.Failed, failed)
	case r.ExitCode != code:
		return fmt.Errorf("exit code %d, want %d\n%s", r.ExitCode, code, r)
	case output.Stderr != "":
		return fmt.Errorf("it writes to stderr: %s", output.Stderr)
	}
	for _, result := range r.Results {
		bad := !slices.Contains([]string{OK, Warning, Failure}, result.Status)
		if bad || result.Check == "" || result.Object == "" || result.Message == "" || (result.Remedy == "") != (result.Status == OK) ||
			(result.Link == "") != (result.Status == OK) {
			return fmt.Errorf("incomplete result: %+v", result)
		}
	}
	return nil
}

// String lists the results that are not ok, or, if all are, says how many there are.
func (r Report) String() string {
	var text strings.Builder
	for _, result := range r.Results {
		if result.Status != OK {
			_, _ = fmt.Fprintf(&text, "%-7s  %s  %s  %s\n         → %s\n", result.Status, result.Check, result.Object, result.Message, result.Remedy)
		}
	}
	if text.Len() == 0 {
		return fmt.Sprintf("%d results, all ok", len(r.Results))
	}
	return strings.TrimRight(text.String(), "\n")
}

// Healthy returns an error unless all results are ok.
func (r Report) Healthy() error {
	for _, result := range r.Results {
		if result.Status != OK {
			return fmt.Errorf("not healthy:\n%s", r)
		}
	}
	return nil
}

// Status returns the worst status of a check, or "" when the report does not
// have it.
func (r Report) Status(check string) string {
	worst := ""
	for _, result := range r.Results {
		if result.Check == check && (worst == "" || worst == OK || result.Status == Failure) {
			worst = result.Status
		}
	}
	return worst
}

// AwaitHealthy runs the check until everything is ok.
func AwaitHealthy(t testing.TB, args ...string) Report {
	t.Helper()
	var last Report
	await(t, "a healthy report of check "+strings.Join(args, " "), func(ctx context.Context) (err error) {
		if last, err = Read(ctx, "", args...); err != nil {
			return err
		}
		return last.Healthy()
	})
	return last
}
