// Package rolloutsstep is the kind of step that waits for other Rollouts: canaries meet at a
// barrier, and roll back together when one of them fails.
//
// A pure function of a snapshot decides what other Rollouts mean for a canary: decision.go for
// those of this cluster, regiondecision.go for those of several. A snapshot comes from one
// watch for each cluster, for all steps of the process (cluster.go, regions.go).
package rolloutsstep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Options say which Rollouts steps may wait for, and how these are read.
type Options struct {
	// Connect returns the configuration of the cluster.
	Connect func() (*rest.Config, error)
	// WatchNamespace is the namespace whose Rollouts are watched; all of them when it is
	// empty. Rollouts of other namespaces are read one by one, by name alone.
	WatchNamespace string
	// Namespaces are the namespaces for whose Rollouts a Rollout of another namespace may
	// wait. It thereby learns their names, versions, steps and failures. "*" is all namespaces.
	Namespaces []string
	// Presets returns what a preset has under `rollouts`: null if it is for another kind of
	// step. known is false for a preset that does not exist. Presets is nil for a registration
	// whose steps are all of this kind.
	Presets func(name string) (section json.RawMessage, known bool)
	Logger  hclog.Logger
	RegionOptions
}

// Kind makes steps that wait for other Rollouts.
type Kind struct {
	opts    Options
	cluster *cluster
	regions regionViews
}

// New returns the kind. It makes no request before the first step.
func New(opts Options) *Kind {
	return &Kind{opts: opts, cluster: newCluster(opts), regions: newRegions(opts)}
}

// Close ends the watches.
func (k *Kind) Close() {
	k.cluster.close()
	k.regions.close()
}

// Name is "rollouts".
func (k *Kind) Name() string { return "rollouts" }

// Parse reads the configuration of a step.
func (k *Kind) Parse(source steps.Source) (steps.Step, error) {
	s := &step{kind: k, naming: naming{defaults: source.Defaults, presets: k.opts.Presets}}
	var config Config
	if err := strict.Decode(source.Config, &config); err != nil {
		return nil, err
	}
	var err error
	if s.rules, err = config.regionRules(source, k.opts.SecretsNamespace); err != nil {
		return nil, err
	}
	s.selection, err = config.selection()
	return s, err
}

type step struct {
	kind      *Kind
	selection selection
	rules     regionRules
	naming    naming
}

// state is what a step keeps between two checks.
type state struct {
	// Since is Snapshot.Since, of the first check: the pods that it is known from may be gone
	// later.
	Since *time.Time `json:"since,omitempty"`
	// Own is RegionSnapshot.Own: the region may not answer later.
	Own string `json:"own,omitempty"`
}

// Repeatable is true: the step changes nothing outside.
func (s *step) Repeatable() bool { return true }

// Finds is false: there is nothing to find.
func (s *step) Finds() bool { return false }

// Start checks the other Rollouts.
func (s *step) Start(ctx context.Context, work steps.Work) (steps.Progress, error) {
	barrier, err := barrierOf(work.Rollout, work.Index, s.naming)
	if err == nil {
		err = s.allowed(work.Rollout.Namespace)
	}
	if err != nil {
		return steps.Progress{Phase: steps.Failed, Message: err.Error()}, nil
	}
	var kept state
	if len(work.State) > 0 {
		if err := json.Unmarshal(work.State, &kept); err != nil {
			return steps.Progress{}, fmt.Errorf("the step's state cannot be read: %w", err)
		}
	}
	meet := s.meet
	if len(s.rules.clusters) > 0 {
		meet = s.meetRegions
	}
	progress, err := meet(ctx, work, barrier, &kept)
	if err != nil {
		return steps.Progress{}, err
	}
	progress.State, err = json.Marshal(kept)
	return progress, err
}

// meet checks the Rollouts of this cluster.
func (s *step) meet(ctx context.Context, work steps.Work, barrier Barrier, kept *state) (steps.Progress, error) {
	own := name{work.Rollout.Namespace, work.Rollout.Name}
	snapshot, err := s.kind.cluster.snapshot(ctx, own, work.Rollout.ResourceVersion, s.selection)
	if err != nil {
		return steps.Progress{}, err
	}
	if kept.Since == nil {
		if err := kept.begin(ctx, s.kind.cluster, work.Rollout, snapshot.afterFailuresUntil); err != nil {
			return steps.Progress{}, err
		}
	}
	snapshot.Barrier, snapshot.Since = barrier, *kept.Since
	return decide(snapshot), nil
}

// Poll checks the other Rollouts again.
func (s *step) Poll(ctx context.Context, work steps.Work) (steps.Progress, error) {
	return s.Start(ctx, work)
}

// Cancel has nothing to do: a check changes nothing.
func (s *step) Cancel(context.Context, steps.Work) error { return steps.ErrNoEffect }

// Undo has nothing to do.
func (s *step) Undo(context.Context, steps.Work) error { return steps.ErrNoEffect }

// Left names nothing.
func (s *step) Left(steps.Work) string { return "nothing" }

// allowed returns an error if the step waits for Rollouts of a namespace that Rollouts of
// own may not learn about.
func (s *step) allowed(own string) error {
	namespaces := slices.Clone(s.selection.namespaces)
	for _, n := range s.selection.names {
		namespaces = append(namespaces, n.in(own).namespace)
	}
	for _, namespace := range namespaces {
		if namespace != own && !slices.Contains(s.kind.opts.Namespaces, namespace) && !slices.Contains(s.kind.opts.Namespaces, "*") {
			return fmt.Errorf("a Rollout of namespace %s may not wait for those of %s: the registration of the plugin does not allow it (--allow-namespace=%[2]s)", own, namespace)
		}
	}
	return nil
}
