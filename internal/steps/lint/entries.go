// Package lint checks the plugin steps of Rollouts, their presets and their registrations in
// argo-rollouts-config, without a cluster: pure functions from objects to problems.
package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/registration"
)

const (
	// ConfigMapName is the name of the ConfigMap with the registrations.
	ConfigMapName = "argo-rollouts-config"
	// ListKey is the key of that ConfigMap with the registrations of step plugins.
	ListKey = "stepPlugins"
	// DefaultName is the name that the docs register the plugin under, and binary the prefix of
	// the file names in a release.
	DefaultName = "kedify/step"
	binary      = "rollouts-plugin-step"
)

// Problem is something that is wrong.
type Problem struct {
	// Path is its path in the object: "spec.strategy.canary.steps[2].plugin.config".
	Path    string
	Message string
}

// Entry is an entry under stepPlugins.
type Entry struct {
	plugintypes.PluginItem
	// Index is its place, from 0.
	Index int
	// Ours is true for an entry of this plugin. The configuration of other step plugins is
	// not checked.
	Ours bool
	// Registration is what its args say. If Wrong is not nil, it says what is wrong with the
	// args, and Registration has only what could be read.
	Registration registration.Registration
	Wrong        error
}

// Path is the path of the entry in the ConfigMap.
func (e Entry) Path() string { return fmt.Sprintf("data.%s[%d]", ListKey, e.Index) }

// Kinds makes the kinds of a registration.
type Kinds func(kinds.Options) []steps.Kind

// ReadEntries reads the list of step plugins of argo-rollouts-config.
func ReadEntries(list string, all Kinds) ([]Entry, error) {
	var items []plugintypes.PluginItem
	if err := yaml.Unmarshal([]byte(list), &items); err != nil {
		return nil, fmt.Errorf("want a YAML list of plugins, each with name, location, sha256 and args; the controller does not start with this one: %w", err)
	}
	known := kinds.Names(all(kinds.Options{}))
	entries := make([]Entry, len(items))
	for i, item := range items {
		r, err := registration.Parse(item.Args, known)
		ours := strings.Contains(path.Base(item.Location), binary) || item.Name == DefaultName || r.Kind != ""
		entries[i] = Entry{PluginItem: item, Index: i, Ours: ours, Registration: r, Wrong: err}
	}
	return entries, nil
}

var (
	// namePattern is what Argo Rollouts accepts as the name of a plugin.
	namePattern = regexp.MustCompile(`^[a-zA-Z0-9\-]+/[a-zA-Z0-9_\-.]+$`)
	sumPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// CheckEntries returns what is wrong with the registrations.
func CheckEntries(entries []Entry) []Problem {
	var problems []Problem
	first := map[string]int{}
	for _, e := range entries {
		add := func(key, format string, args ...any) {
			problems = append(problems, Problem{e.Path() + key, fmt.Sprintf(format, args...)})
		}
		if !namePattern.MatchString(e.Name) {
			add(".name", "%q is not of the form <namespace>/<name>: the controller does not start", e.Name)
		}
		if earlier, twice := first[e.Name]; twice {
			add(".name", "%s is listed twice, first as %s[%d]: the controller runs the last one's file with the first one's args", e.Name, ListKey, earlier)
		} else {
			first[e.Name] = e.Index
		}
		if !e.Ours {
			continue
		}
		remote := strings.HasPrefix(e.Location, "http://") || strings.HasPrefix(e.Location, "https://")
		switch {
		case e.Location == "":
			add(".location", "is missing: want the URL of the release's file for the controller's platform")
		case remote && e.Sha256 == "":
			add(".sha256", "is missing: the controller would run whatever the location serves, with its own rights; take the file's line of the release's checksums.txt")
		case e.Sha256 != "" && !sumPattern.MatchString(e.Sha256):
			add(".sha256", "%q is not 64 hexadecimal digits in lower case", e.Sha256)
		}
		if e.Wrong != nil {
			add(".args", "%v", e.Wrong)
		}
		if said := e.Registration.Name; e.Wrong == nil && said != "" && said != e.Name {
			add(".args", "--name %s is not the name of the entry, %s: take it out", said, e.Name)
		}
	}
	return problems
}

// NeedsHosts tells whether every request of a registration's steps would be refused, because
// no host is allowed. The preset is nil if there is none, or if it is not known.
func NeedsHosts(e Entry, preset *steps.Preset) bool {
	return e.Wrong == nil && e.Registration.Kind == "http" && len(e.Registration.AllowHosts) == 0 && (preset == nil || len(preset.Hosts) == 0)
}

// entryOf returns the entry that the controller runs under a name, or nil.
func entryOf(entries []Entry, name string) *Entry {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &entries[i]
}
