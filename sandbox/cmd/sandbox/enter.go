package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

func execCommand(w *which) *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside a sandbox",
		Long: `Run a command inside a sandbox, with kubectl, kubectl argo rollouts, the
plugin, kubectl canary and the interceptor on PATH, and KUBECONFIG set. The exit code is the command's.`,
		Example: "  sandbox exec -- kubectl get pods -A",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := w.open()
			if err != nil {
				return err
			}
			return runInside(cmd.Context(), s.Command, args)
		},
	}
}

func shellCommand(w *which) *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "Start a shell inside a sandbox",
		Long: `Start a shell inside a sandbox, with kubectl, kubectl argo rollouts, the
plugin, kubectl canary and the interceptor on PATH, and KUBECONFIG set. Leaving it leaves the sandbox running.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := w.open()
			if err != nil {
				return err
			}
			program := os.Getenv("SHELL")
			if program == "" {
				program = "/bin/sh"
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) { // the shell reads a script from stdin
				return runInside(cmd.Context(), s.Command, []string{program})
			}
			args, err := interactive(s.Layout(), program)
			if err != nil {
				return err
			}
			return runInside(cmd.Context(), s.Shell, args)
		},
	}
}

// interactive returns the command line of an interactive shell. Bash's start-up
// files may reset PATH and the prompt, so bash gets a start-up file that sets them
// last.
func interactive(l cluster.Layout, program string) ([]string, error) {
	if filepath.Base(program) != "bash" {
		return []string{program}, nil
	}
	rc := filepath.Join(l.Dir, "bashrc")
	content := fmt.Sprintf("[ -f ~/.bashrc ] && . ~/.bashrc\nPATH=%q:$PATH\nPS1='[sandbox] \\w \\$ '\n", l.Bin())
	if err := os.WriteFile(rc, []byte(content), 0o644); err != nil {
		return nil, err
	}
	return []string{program, "--rcfile", rc, "-i"}, nil
}

// enterFunc makes a command that runs inside: Sandbox.Command or Sandbox.Shell.
type enterFunc func(ctx context.Context, args ...string) (*exec.Cmd, error)

// runInside runs a command inside the sandbox with this process's streams. On a
// terminal, Ctrl-C reaches the command directly, and the command handles it; other
// signals to end are passed on.
func runInside(ctx context.Context, enter enterFunc, args []string) error {
	terminal := term.IsTerminal(int(os.Stdin.Fd()))
	passedOn := []os.Signal{unix.SIGTERM, unix.SIGHUP}
	if terminal {
		signal.Ignore(unix.SIGINT, unix.SIGQUIT) // nsenter inherits this, the command does not
	} else {
		passedOn = append(passedOn, unix.SIGINT)
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), passedOn...)
	defer stop()
	cmd, err := enter(ctx, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := cluster.ExitCode(cmd.Run())
	if terminal {
		reclaimTerminal()
	}
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// reclaimTerminal makes this process's group the terminal's foreground group again,
// after a shell that took the terminal.
func reclaimTerminal() {
	signal.Ignore(unix.SIGTTOU) // sent to a background process that takes the terminal
	defer signal.Reset(unix.SIGTTOU)
	_ = unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
}
