// Command tables replaces the tables of the docs that are made from the sources.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/settings"
	"github.com/kedify/argo-rollouts-plugin/internal/kubectlcanary/check"
)

// pages has the tables of each page.
var pages = map[string][]string{
	"docs/reference.md":   {check.Reference()},
	"docs/interceptor.md": {settings.Reference(), settings.ReferenceWithoutEffect()},
}

func main() {
	for page, tables := range pages {
		for _, table := range tables {
			if err := replace(page, table); err != nil {
				fmt.Fprintf(os.Stderr, "tables: %v\n", err)
				os.Exit(1)
			}
		}
	}
}

// replace replaces the table of the page that has the same header.
func replace(name, table string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	header, _, _ := strings.Cut(table, "\n")
	before, after, found := strings.Cut(string(page), "\n"+header+"\n")
	_, rest, ends := strings.Cut(after, "\n\n")
	if !found || !ends {
		return fmt.Errorf("%s has no table that begins with %q and ends with an empty line", name, header)
	}
	return os.WriteFile(name, []byte(before+"\n"+table+"\n"+rest), 0o644)
}
