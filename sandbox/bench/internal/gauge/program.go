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

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/cluster"
)

// A Program is the command of a benchmark, which has the flag -parts and such as are
// defined before Run.
type Program struct {
	// Name is that of the command, and of the target of make that runs it.
	Name string
	// Parts are the names of what it measures, in their order.
	Parts []string
	// Enter runs the program again in a sandbox, with the same arguments, to measure some
	// parts. Without it, Enter of this package does so.
	Enter func(ctx context.Context, parts Parts) error
	// Measure is called in the sandbox.
	Measure func(ctx context.Context, parts Parts) error

	needed []string
}

// Parts are names of what is to be measured.
type Parts []string

// Has tells whether one of some parts is to be measured.
func (p Parts) Has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p, name) })
}

// String returns them as the flag -parts has them.
func (p Parts) String() string { return strings.Join(p, ",") }

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
	switch {
	case cluster.Inside():
		err = p.Measure(ctx, parts)
	case p.Enter != nil:
		err = p.Enter(ctx, parts)
	default:
		err = Enter(ctx)
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
