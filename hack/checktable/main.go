// Command checktable replaces the table of the checks of `kubectl canary check` in the
// reference.
//
//	go run ./hack/checktable docs/reference.md
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/preflight"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "checktable: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the page that has the table")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	table := preflight.Reference()
	header, _, _ := strings.Cut(table, "\n")
	before, after, found := strings.Cut(string(page), "\n"+header+"\n")
	_, rest, ends := strings.Cut(after, "\n\n")
	if !found || !ends {
		return fmt.Errorf("%s has no table that begins with %q and ends with an empty line", args[0], header)
	}
	return os.WriteFile(args[0], []byte(before+"\n"+table+"\n"+rest), 0o644)
}
