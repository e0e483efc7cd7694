// Command echo is the echo of a container, whose root holds nothing but the static
// programs of its image.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(echoMain(os.Args[1:], os.Stdout, os.Stderr)) }

// echoMain prints its arguments, as echo does. Options are refused. It returns the exit
// code.
func echoMain(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		fmt.Fprintf(stderr, "echo: option %s: the sandbox's echo takes none\n", args[0])
		return 1
	}
	if _, err := fmt.Fprintln(stdout, strings.Join(args, " ")); err != nil {
		fmt.Fprintln(stderr, "echo:", err)
		return 1
	}
	return 0
}
