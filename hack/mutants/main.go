// Command mutants shows that the tests notice when the product breaks. It makes each
// change that mutants.yaml lists to a copy of the sources, runs the tests that the
// list names for it, and demands that each of them fails. `make mutants` runs it.
//
// It works in bin/mutants, never in the working tree: results.json there has the result
// of each change, logs what the tests printed. After an interrupt, the next run goes on
// where it stopped; after a change of the sources, it does everything anew.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	pattern := flag.String("run", ".", "regular expression of the names of the mutations to try")
	flag.Parse()
	if err := run(*pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(pattern string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: expected -run and a regular expression, or nothing", flag.Arg(0))
	}
	names, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	mutations, err := readList(filepath.Join(root, listFile))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: run this in the root of the repository", err)
	}
	if err != nil {
		return err
	}
	return try(ctx, root, mutations, names, os.Stdout)
}
