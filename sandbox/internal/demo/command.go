package demo

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// rollouts runs `kubectl argo rollouts` as a person would type it.
func (p *player) rollouts(ctx context.Context, args ...string) error {
	return p.run(ctx, "kubectl", append([]string{"argo", "rollouts", "-n", p.setting.namespace}, args...)...)
}

// run shows a command, runs it in the repository, and shows what it prints.
func (p *player) run(ctx context.Context, program string, args ...string) error {
	line := program + " " + strings.Join(args, " ")
	if err := p.screen.Sayf(Bold, "$ %s", line); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w\n%s", line, err, strings.TrimSpace(stdout.String()+stderr.String()))
	}
	for printed := range strings.Lines(stdout.String()) {
		if err := p.screen.Sayf(Plain, "%s", strings.TrimRight(printed, "\n")); err != nil {
			return err
		}
	}
	return nil
}
