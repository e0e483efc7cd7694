package rolloutsstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
)

// maxClusters bounds how many clusters a step waits for, and maxClusterName the bytes of their
// names, of which a step's state has one.
const (
	maxClusters    = 20
	maxClusterName = 63
)

// regionRules are the keys of a configuration that are about clusters. Without clusters there
// are no others.
type regionRules struct {
	clusters []Cluster
	// hosts are those of the preset.
	hosts         []string
	until         Until
	onUnreachable OnUnreachable
	version       versionRule
}

// regionRules returns the keys that are about clusters, or what is wrong with them.
func (c *Config) regionRules(source steps.Source, secretsNamespace string) (regionRules, error) {
	var preset struct {
		Clusters []Cluster `json:"clusters"`
	}
	_ = json.Unmarshal(source.Defaults, &preset) // what is wrong with it is wrong with the configuration
	// A Rollout may not choose which Secret of the admin's goes where, nor leave clusters out.
	if !slices.Equal(c.Clusters, preset.Clusters) {
		return regionRules{}, errors.New("clusters: only a preset has these, as their Secrets are the admin's: name one with use, and set no clusters beside it")
	}
	rules := regionRules{clusters: c.Clusters, hosts: source.PresetHosts, until: c.Until, onUnreachable: c.OnUnreachable}
	if len(c.Clusters) == 0 {
		for _, key := range []struct{ name, value string }{{"until", string(c.Until)}, {"version", c.Version}, {"onUnreachable", string(c.OnUnreachable)}} {
			if key.value != "" {
				return rules, fmt.Errorf("%s: this is for clusters, which a preset has", key.name)
			}
		}
		return rules, nil
	}
	if _, err := outbound.ParseHosts(source.PresetHosts); err != nil {
		return rules, fmt.Errorf("hosts of the preset: %w", err)
	}
	switch {
	case secretsNamespace == "":
		return rules, errors.New("clusters: the plugin has to be registered with the namespace of their Secrets (--secrets-namespace)")
	case len(c.Clusters) > maxClusters:
		return rules, fmt.Errorf("clusters: want up to %d, not %d", maxClusters, len(c.Clusters))
	case !slices.Contains([]Until{"", UntilBarrier, UntilPromoted}, c.Until):
		return rules, fmt.Errorf("until: want %s or %s, not %q", UntilBarrier, UntilPromoted, c.Until)
	case !slices.Contains([]OnUnreachable{"", OnUnreachableWait, OnUnreachableIgnore, OnUnreachableFail}, c.OnUnreachable):
		return rules, fmt.Errorf("onUnreachable: want %s, %s or %s, not %q", OnUnreachableWait, OnUnreachableIgnore, OnUnreachableFail, c.OnUnreachable)
	}
	for i, cluster := range c.Clusters {
		switch {
		case len(validation.IsDNS1123Subdomain(cluster.Name)) > 0 || len(cluster.Name) > maxClusterName:
			return rules, fmt.Errorf("clusters[%d].name: want a name such as eu-west of up to %d bytes, not %q", i, maxClusterName, cluster.Name)
		case len(validation.IsDNS1123Subdomain(cluster.Secret)) > 0:
			return rules, fmt.Errorf("clusters[%d].secret: want the name of a Secret of --secrets-namespace, not %q", i, cluster.Secret)
		case slices.ContainsFunc(c.Clusters[:i], func(other Cluster) bool { return other.Name == cluster.Name }):
			return rules, fmt.Errorf("clusters[%d].name: %s is there twice", i, cluster.Name)
		case slices.ContainsFunc(c.Clusters[:i], func(other Cluster) bool { return other.Secret == cluster.Secret }):
			return rules, fmt.Errorf("clusters[%d].secret: %s is there twice: each cluster has its own Secret", i, cluster.Secret)
		}
	}
	var err error
	rules.version, err = readVersionRule(c.Version)
	return rules, err
}

// meetRegions checks the Rollouts of all clusters.
func (s *step) meetRegions(ctx context.Context, work steps.Work, barrier Barrier, kept *state) (steps.Progress, error) {
	ro, budget := work.Rollout, cel.NewBudget()
	from, err := versionedSelf(ro)
	version := ""
	if err == nil {
		version, err = s.rules.version.of(ctx, budget, from)
	}
	if err != nil {
		return steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("the version of this Rollout is not known: %v", err)}, nil
	}
	own := name{ro.Namespace, ro.Name}
	m := meeting{
		own: own, uid: ro.UID, version: version, rule: s.rules.version, budget: budget,
		selection: s.selection.inRegions(own), now: s.kind.cluster.now(), places: map[types.UID]string{},
	}
	if kept.Since != nil {
		m.since = *kept.Since
	}
	snapshot := RegionSnapshot{Barrier: barrier, Version: version, Until: s.rules.until, OnUnreachable: s.rules.onUnreachable, Own: kept.Own}
	namespaces := m.selection.namespacesOf(own.namespace)
	if s.rules.until == UntilPromoted && !slices.Contains(namespaces, own.namespace) {
		namespaces = append([]string{own.namespace}, namespaces...) // there its place in the list is seen
	}
	for _, view := range s.views(ctx, namespaces) {
		region, isOwn := m.region(ctx, view)
		if isOwn {
			snapshot.Own = region.Name
		}
		if region.SameAs != "" {
			return steps.Progress{Phase: steps.Failed, Message: fmt.Sprintf("the clusters %s and %s of the preset are the same one: put another kubeconfig into the Secret of one of them", region.SameAs, region.Name)}, nil
		}
		snapshot.Regions = append(snapshot.Regions, region)
	}
	kept.Own = snapshot.Own
	if kept.Since == nil {
		if err := s.kind.cluster.awaitVersion(ctx, own, ro.ResourceVersion); err != nil {
			return steps.Progress{}, err
		}
		if err := kept.begin(ctx, s.kind.cluster, ro, snapshot.afterFailuresUntil); err != nil {
			return steps.Progress{}, err
		}
	}
	snapshot.Since = *kept.Since
	return decideRegions(snapshot), nil
}

// views returns what is known of each cluster.
func (s *step) views(ctx context.Context, namespaces []string) []regionView {
	views := make([]regionView, len(s.rules.clusters))
	var all sync.WaitGroup
	for i, cluster := range s.rules.clusters {
		all.Go(func() {
			views[i] = s.kind.regions.view(ctx, cluster, s.rules.hosts, namespaces)
		})
	}
	all.Wait()
	return views
}

// inRegions returns the selection in regions of a step without one: the Rollouts of own's
// name.
func (s selection) inRegions(own name) selection {
	if s.selector == nil && len(s.names) == 0 {
		s.names = []name{own}
	}
	return s
}

// namespacesOf returns the namespaces of the Rollouts that are waited for, for a Rollout of a
// namespace.
func (s selection) namespacesOf(own string) []string {
	namespaces := slices.Clone(s.namespaces)
	for _, n := range s.names {
		namespaces = append(namespaces, n.in(own).namespace)
	}
	if len(namespaces) == 0 {
		return []string{own}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// meeting is what a look at one region needs to know of the Rollout that waits.
type meeting struct {
	own       name
	uid       types.UID
	version   string
	rule      versionRule
	budget    *cel.Budget
	selection selection
	now       time.Time
	// since is when this canary began; zero if that is not known yet.
	since time.Time
	// places are the regions that answer, by the UIDs of the Rollouts that were found there.
	places map[types.UID]string
}

// region returns what a decision needs to know of a region, and whether it is this Rollout's
// own.
func (m meeting) region(ctx context.Context, view regionView) (region Region, isOwn bool) {
	region = Region{Name: view.Name, Unreachable: view.Unreachable}
	if view.Unreachable != "" {
		region.UnreachableSince, region.Away = view.Since, m.now.Sub(view.Since)
	}
	found := map[name]*kube.Summary[Rollout]{}
	for _, rollout := range view.Rollouts {
		isOwn = isOwn || rollout.UID == m.uid
		found[name{rollout.Namespace, rollout.Name}] = rollout
		// A Secret that leads to another region would leave its own one out.
		if view.Unreachable == "" {
			region.SameAs = cmp.Or(region.SameAs, m.places[rollout.UID])
			m.places[rollout.UID] = view.Name
		}
	}
	if m.selection.selector != nil {
		region.Others, region.TooFew = m.selected(ctx, view)
		return region, isOwn
	}
	for _, n := range m.selection.names {
		n = n.in(m.own.namespace)
		if rollout := found[n]; rollout == nil || rollout.UID != m.uid {
			region.Others = append(region.Others, m.rollout(ctx, view, n, rollout))
		}
	}
	return region, isOwn
}

// selected returns the Rollouts of a region that the selector matches, and whether they are
// too few. This Rollout counts.
func (m meeting) selected(ctx context.Context, view regionView) (others []RegionRollout, tooFew string) {
	namespaces := m.selection.namespacesOf(m.own.namespace)
	count := 0
	for _, rollout := range view.Rollouts {
		if rollout.Content.Deleted || !slices.Contains(namespaces, rollout.Namespace) || !m.selection.selector.Matches(labels.Set(rollout.Labels)) {
			continue
		}
		count++
		if rollout.UID != m.uid {
			others = append(others, m.rollout(ctx, view, name{rollout.Namespace, rollout.Name}, rollout))
		}
	}
	slices.SortFunc(others, func(a, b RegionRollout) int { return strings.Compare(a.Name, b.Name) })
	if count < m.selection.min {
		tooFew = fmt.Sprintf("the selector (%s) matches %d in namespace %s, and min is %d: create or label them, or set min: 0", m.selection.text, count, strings.Join(namespaces, ", "), m.selection.min)
	}
	return others, tooFew
}

// rollout returns what a decision needs to know of a Rollout of a region, which may be nil.
func (m meeting) rollout(ctx context.Context, view regionView, n name, found *kube.Summary[Rollout]) RegionRollout {
	r := RegionRollout{Other: Other{Name: n.String()}}
	if found != nil {
		r.Rollout = &found.Content
		var err error
		if r.Version, err = m.versionOf(ctx, view, found); err != nil {
			r.VersionUnknown = err.Error()
		}
	}
	if failed := view.Failures.since(n, m.since); failed != nil {
		if version, err := m.versionOf(ctx, view, failed); err == nil && version == m.version {
			r.Failed = &failed.Content
		}
	}
	return r
}

func (m meeting) versionOf(ctx context.Context, view regionView, r *kube.Summary[Rollout]) (string, error) {
	from, err := view.versionedOf(ctx, r)
	if err != nil {
		return "", err
	}
	return m.rule.of(ctx, m.budget, from)
}

// begin sets since when the canary counts as begun. withoutPods returns that for a canary
// that has no pods.
func (k *state) begin(ctx context.Context, c *cluster, ro *v1alpha1.Rollout, withoutPods func(now time.Time) time.Time) error {
	since, err := c.canarySince(ctx, ro)
	if err != nil {
		return err
	}
	if since.IsZero() {
		since = withoutPods(c.now())
	}
	k.Since = &since
	return nil
}
