package gauge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/progress"
)

// A Program is the command of a benchmark, which has the flag -parts and such as are
// defined before Run.
type Program struct {
	// Name is that of the command, and of the target of make that runs it.
	Name string
	// Parts are the names of what it measures, in their order.
	Parts []string
	// With are the add-ons of the sandbox of all parts but Alone, which has a sandbox of its
	// own, as AloneWith would take processor time from the others.
	With, AloneWith []string
	Alone           string
	// Measure is called in a sandbox without a controller.
	Measure func(ctx context.Context, parts Parts) error

	needed []string
}

// Parts are names of what is to be measured.
type Parts []string

// Has tells whether one of some parts is to be measured.
func (p Parts) Has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p, name) })
}

// Need defines a flag that must not be empty, such as the path of a program.
func (p *Program) Need(into *string, name, usage string) {
	p.needed = append(p.needed, name)
	flag.StringVar(into, name, "", usage)
}

// Run is the main function. It returns the exit code: 1 when a measurement failed, and 2
// for wrong flags.
func (p *Program) Run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	named := flag.String("parts", "", "what to measure, of "+strings.Join(p.Parts, ", ")+"; separated by commas, all without")
	flag.Parse()
	parts, err := p.chosen(*named)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	if cluster.Inside() {
		began := time.Now()
		err = p.Measure(ctx, parts)
		Say("done in %s", time.Since(began).Round(time.Second))
	} else {
		err = p.enter(ctx, parts)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

// chosen returns the parts that are named, all if none is.
func (p *Program) chosen(named string) (Parts, error) {
	for _, name := range p.needed {
		if flag.Lookup(name).Value.String() == "" {
			return nil, fmt.Errorf("-%s is needed; `make %s` gives it", name, p.Name)
		}
	}
	if named == "" {
		return p.Parts, nil
	}
	parts := strings.Split(named, ",")
	for _, part := range parts {
		if !slices.Contains(p.Parts, part) {
			return nil, fmt.Errorf("there is no part %q; there are %s", part, strings.Join(p.Parts, ", "))
		}
	}
	return parts, nil
}

// enter runs this program again in sandboxes.
func (p *Program) enter(ctx context.Context, parts Parts) error {
	together := slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return part == p.Alone })
	if len(together) > 0 {
		if err := runInSandbox(ctx, together, p.With); err != nil {
			return err
		}
	}
	if parts.Has(p.Alone) {
		return runInSandbox(ctx, Parts{p.Alone}, p.AloneWith)
	}
	return nil
}

// runInSandbox brings up a sandbox, runs this program again in it with the same arguments
// for some parts, and takes it down.
func runInSandbox(ctx context.Context, parts Parts, addons []string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sandbox, err := cluster.Up(ctx, cluster.Options{
		Name:     fmt.Sprintf("bench-%d", os.Getpid()),
		Bare:     true,
		With:     addons,
		Owned:    true,
		Progress: progress.New(os.Stderr),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sandbox.Down()) }()
	arguments := append([]string{self}, os.Args[1:]...)
	cmd, err := sandbox.Command(ctx, append(arguments, "-parts", strings.Join(parts, ","))...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the measurement: %w", err)
	}
	return nil
}
