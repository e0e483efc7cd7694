package sourceguide

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/page"
)

const (
	// patience is how long a command may take to show what the guide does: KEDA needs
	// 30 s for some of it.
	patience = 2 * time.Minute

	pollInterval = 500 * time.Millisecond

	// redrawn is what a watch of kubectl argo rollouts writes before each picture.
	redrawn = "\x1b[0;0H"

	addressOfIngress = "<ingress-address>"
)

// Walk runs the guide's commands.
type Walk struct {
	// Dir is the directory that the commands are run in; it has ManifestsFile.
	Dir string
	// Address is the address in the Ingress's status, which the commands that send
	// requests name.
	Address string
}

// Do runs a step and returns what it prints; an error if that is not what the guide
// shows. Commands that look at objects are repeated until it is: they are about what
// happens by itself. One that watches is ended then.
func (w Walk) Do(ctx context.Context, s page.Step) (printed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := strings.ReplaceAll(s.Commands, addressOfIngress, w.Address)
	switch {
	case strings.Contains(line, " port-forward "):
		printed, err = w.forward(ctx, line)
	case strings.HasSuffix(line, " -w\n"):
		return w.watch(ctx, line, s.Output)
	default:
		printed, err = w.run(ctx, line)
	}
	if s.Output == "" {
		return printed, err
	}
	for repeat := strings.Contains(line, " get "); ; {
		if err == nil {
			err = Compare(s.Output, printed)
		}
		if err == nil || !repeat {
			return printed, err
		}
		select {
		case <-ctx.Done():
			return printed, fmt.Errorf("%s%w", line, err)
		case <-time.After(pollInterval):
		}
		printed, err = w.run(ctx, line)
	}
}

// run runs a command line as a person types it.
func (w Walk) run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-ec", line)
	cmd.Dir = w.Dir
	cmd.Env = append(os.Environ(), "PLATFORM="+Platform)
	cmd.WaitDelay = pollInterval // for what the shell has started
	output, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s%w\n%s", line, err, output)
	}
	return string(output), err
}

// forward runs the first of two lines as one would in another terminal, the others
// once it forwards, and then ends it.
func (w Walk) forward(ctx context.Context, lines string) (string, error) {
	first, others, _ := strings.Cut(lines, "\n")
	output, end, err := w.start(ctx, first)
	if err != nil {
		return "", err
	}
	defer end()
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		if strings.HasPrefix(scanner.Text(), "Forwarding from") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return w.run(ctx, others)
		}
	}
	return "", fmt.Errorf("%s: it ends without forwarding (%w)", first, errors.Join(scanner.Err(), ctx.Err()))
}

// watch runs a command until a picture that it draws is as shown.
func (w Walk) watch(ctx context.Context, line, shown string) (string, error) {
	output, end, err := w.start(ctx, strings.TrimSpace(line))
	if err != nil {
		return "", err
	}
	defer end()
	var all bytes.Buffer
	chunk := make([]byte, 1<<16)
	err = errors.New("it has drawn nothing")
	picture := ""
	for {
		n, readErr := output.Read(chunk)
		all.Write(chunk[:n])
		if _, last, drawn := strings.Cut(lastPart(all.String()), redrawn); drawn {
			picture = last
			if err = Compare(shown, picture); err == nil {
				return control.ReplaceAllString(picture, ""), nil
			}
		}
		if readErr != nil {
			return picture, fmt.Errorf("%s: it ends (%w), and %w", line, errors.Join(readErr, ctx.Err()), err)
		}
	}
}

// lastPart returns the end of a text, from where the last picture begins.
func lastPart(text string) string { return text[max(0, strings.LastIndex(text, redrawn)):] }

// start starts a command with no shell in between, so that it can be ended.
func (w Walk) start(ctx context.Context, line string) (output io.Reader, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = w.Dir
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("%s: %w", line, err)
	}
	return pipe, func() {
		cancel()
		_ = cmd.Wait() // an error, as it was killed
	}, nil
}
