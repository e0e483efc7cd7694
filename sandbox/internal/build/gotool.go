package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// goTool runs the go command in a directory, always for a static binary of
// this machine's kind, whatever the caller's environment says.
type goTool struct {
	dir string
	// modFile is used in place of dir's go.mod, unless it is empty.
	modFile string
}

func (g goTool) command(ctx context.Context, args ...string) *exec.Cmd {
	if g.modFile != "" {
		verb := 1
		if args[0] == "mod" {
			verb = 2
		}
		args = slices.Insert(slices.Clone(args), verb, "-modfile="+g.modFile)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOWORK=off", "PWD="+g.dir)
	return cmd
}

// output runs go and returns what it wrote to its standard output, trimmed.
func (g goTool) output(ctx context.Context, args ...string) (string, error) {
	var stdout bytes.Buffer
	err := g.run(ctx, &stdout, func(string) {}, args...)
	return strings.TrimSpace(stdout.String()), err
}

// run runs go, hands every line of its standard error to line, and puts the lines
// that do not report progress into the error if it fails.
func (g goTool) run(ctx context.Context, stdout io.Writer, line func(string), args ...string) error {
	cmd := g.command(ctx, args...)
	cmd.Stdout = stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return errors.New("the go command is not on PATH: install Go (https://go.dev/dl) to build the sandbox's cluster")
		}
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	var complaints []string
	scanner := bufio.NewScanner(stderr)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		text := scanner.Text()
		line(text)
		if !isPackage(text) && !strings.HasPrefix(text, "go: downloading ") {
			complaints = append(complaints, text)
		}
	}
	readErr := scanner.Err()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("go %s: %w", args[0], ctx.Err())
	case err != nil:
		if len(complaints) > maxComplaints {
			complaints = append(complaints[:maxComplaints], "…")
		}
		return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), g.dir, err, strings.Join(complaints, "\n"))
	case readErr != nil:
		return fmt.Errorf("reading the output of go %s: %w", args[0], readErr)
	}
	return nil
}

// maxComplaints is how many lines of a failed go command an error carries: the first
// ones, because later errors of a compiler mostly follow from the first.
const maxComplaints = 40

// isPackage says whether a line of `go build -v` names a package, rather than
// being a message.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#")
}
