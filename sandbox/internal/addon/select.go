package addon

import (
	"fmt"
	"slices"
	"strings"
)

// Select returns the named add-ons and all that they need, each after the add-ons
// that it needs; unless bare, the default add-ons are among them.
func Select(all []Addon, with []string, bare bool) ([]Addon, error) {
	var wanted []string
	if !bare {
		for _, a := range all {
			if a.Default {
				wanted = append(wanted, a.Name)
			}
		}
	}
	wanted = append(wanted, with...)

	var (
		selected []Addon
		names    []string
		add      func(name string) error
	)
	add = func(name string) error {
		i := slices.IndexFunc(all, func(a Addon) bool { return a.Name == name })
		if i < 0 {
			return fmt.Errorf("no add-on %q; there are: %s", name, strings.Join(Names(all), ", "))
		}
		if slices.Contains(names, name) {
			return nil
		}
		names = append(names, name) // before its needs, so that a cycle ends here
		before := slices.Clone(all[i].Needs)
		for _, other := range all[i].After {
			if slices.Contains(wanted, other) {
				before = append(before, other)
			}
		}
		for _, other := range before {
			if err := add(other); err != nil {
				return fmt.Errorf("add-on %s: %w", name, err)
			}
		}
		selected = append(selected, all[i])
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return selected, nil
}

// Names returns the names of add-ons, in their order.
func Names(all []Addon) []string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	return names
}
