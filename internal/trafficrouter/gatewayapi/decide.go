package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter"
)

// backend is what the frame of a router asks of the Gateway API.
type backend struct {
	plugin string
	routes *store
	whole  *kube.Objects
}

// routeSettings are what a Rollout's configuration says of one route.
type routeSettings struct {
	useHeaderRoutes bool
	rules           []string
	label           Label
	verification    bool
	// exactly are the header and mirror routes that self-healing puts back; nil for a call.
	exactly *Managed
}

type (
	target   = trafficrouter.Target[*unstructured.Unstructured, routeSettings]
	decision = trafficrouter.Decision[*unstructured.Unstructured, routeSettings]
)

var _ trafficrouter.Backend[*unstructured.Unstructured, routeSettings] = (*backend)(nil)

// Configure returns which routes a Rollout names and selects.
func (b *backend) Configure(ro *v1alpha1.Rollout) (trafficrouter.Config[routeSettings], error) {
	config, err := ConfigOf(ro, b.plugin)
	is := trafficrouter.Config[routeSettings]{Warnings: slices.Concat(config.Warnings)}
	if err != nil {
		return is, err
	}
	add := func(q trafficrouter.Query, s routeSettings) {
		s.label, s.verification = config.Label, config.Verification
		is.Objects = append(is.Objects, trafficrouter.Selected[routeSettings]{Query: q, Settings: s})
	}
	for _, route := range config.Routes {
		add(trafficrouter.Query{Kind: string(route.Kind), Namespace: config.Namespace, Name: route.Name},
			routeSettings{useHeaderRoutes: route.UseHeaderRoutes, rules: route.Rules})
	}
	for _, selector := range config.Selectors {
		add(trafficrouter.Query{Kind: string(selector.Kind), Namespace: config.Namespace, Labels: selector.Selector}, routeSettings{rules: selector.Rules})
	}
	return is, nil
}

// rolloutOf returns what a decision on a route has to know of a Rollout.
func (b *backend) rolloutOf(ro *v1alpha1.Rollout, s routeSettings) Rollout {
	of := RolloutOf(ro, s.rules)
	of.Label, of.Plugin, of.UseHeaderRoutes = s.label, b.plugin, s.useHeaderRoutes
	of.MirrorPercent = b.routes.mirroring.knowsPercent()
	return of
}

// Decide returns what a route should be.
func (b *backend) Decide(ctx context.Context, p *trafficrouter.Plan, t target) (decision, error) {
	ro := b.rolloutOf(p.Rollout, t.Settings)
	ro.Unconfigured = p.Unconfigured
	ro.Port = b.port(ctx, p.Rollout.Namespace)
	wanted := Wanted{Exactly: t.Settings.exactly, Calls: p.RouteCalls, PutBack: p.PutBack}
	if p.Weights != nil {
		weights := weightsOf(p.Weights)
		wanted.Weights = &weights
	}
	d, err := Apply(t.Object, ro, wanted)
	var foreign *ForeignError
	if errors.As(err, &foreign) {
		return decision{}, &trafficrouter.ForeignError{Owner: foreign.Owner, Err: err}
	}
	again, managed := t.Settings, d.Managed // a pointer into d would keep the whole route
	again.exactly = &managed
	return decision{Object: d.Route, Changed: d.Changed, Again: again, Warnings: d.Warnings}, err
}

// weightsOf are the weights of a plan.
func weightsOf(of *trafficrouter.Weights) Weights {
	w := Weights{Stable: of.Stable, Canary: of.Canary}
	for _, e := range of.Experiments {
		w.Experiments = append(w.Experiments, ExperimentWeight{e.ServiceName, e.Weight})
	}
	return w
}

// Release returns what a route should be without what an owner has on it.
func (b *backend) Release(_ context.Context, route *unstructured.Unstructured, owner Owner, ro *v1alpha1.Rollout) (decision, error) {
	stable := ""
	if ro != nil && rolloutspec.UsesPingPong(ro) {
		stable, _ = rolloutspec.Services(ro)
	}
	d, err := Release(route, owner.Rollout, owner.Plugin, stable)
	return decision{Object: d.Route, Changed: d.Changed, Warnings: d.Warnings}, err
}

// Owners returns the Rollouts that have something on a route.
func (b *backend) Owners(route *unstructured.Unstructured) []Owner { return RolloutsOn(route) }

// InPlace returns the weight that a route gives the canary of a Rollout now.
func (b *backend) InPlace(route *unstructured.Unstructured, ro *v1alpha1.Rollout) (canary int32, ok bool) {
	of := b.rolloutOf(ro, routeSettings{})
	if !slices.ContainsFunc(RolloutsOn(route), func(on Owner) bool {
		return on.Rollout == of.NamespacedName && (on.Plugin == b.plugin || !slices.Contains(of.Registrations, on.Plugin))
	}) {
		return 0, false
	}
	for _, split := range SplitsOf(route, of) {
		canary = max(canary, int32(min(split.Canary, of.max())))
	}
	return canary, true
}

// Takes returns the routes that take a header or mirror route.
func (b *backend) Takes(targets []target, call RouteCall) ([]target, error) {
	taking := slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return !t.Settings.useHeaderRoutes || !Kind(t.Kind).takes(call)
	})
	if len(taking) == 0 {
		return nil, errors.New("none of the Rollout's routes takes it: set useHeaderRoutes on an HTTPRoute (for a header route, or a GRPCRoute) in its configuration, or take the step out")
	}
	return taking, nil
}

// ChangedBy returns who has changed a route.
func (b *backend) ChangedBy(now, wanted *unstructured.Unstructured) trafficrouter.Change {
	ref, by := refOf(now), lastWriterOf(now.GetManagedFields())
	instance := false
	switch {
	case lostMark(now, wanted):
		by = writer{manager: unnamed} // the rules are the plugin's, and no instance of it leaves them without label and annotation
	case by.manager == FieldManager:
		instance = !b.routes.reports.wroteLast(refOf(now), now)
	}
	return trafficrouter.Change{Manager: by.manager, Text: fmt.Sprintf("%s has changed %s", by.subject(), ref), Instance: instance}
}

// lostMark tells whether all that a route lacks is the in-progress label or the
// annotation.
func lostMark(route, decided *unstructured.Unstructured) bool {
	_, has := route.GetAnnotations()[Annotation]
	return decided != nil && reflect.DeepEqual(route.Object["spec"], decided.Object["spec"]) && (!has || !maps.Equal(route.GetLabels(), decided.GetLabels()))
}

// Missing says that routes that a Rollout names or selects do not exist.
func (b *backend) Missing(q trafficrouter.Query, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("there are no %s: label the routes, or correct the selector in the Rollout's configuration", q)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s not found: create it, or correct its name or namespace in the Rollout's configuration", q)
	}
	return fmt.Errorf("%s: %w", q, err)
}

// refOf names a route.
func refOf(route *unstructured.Unstructured) trafficrouter.Ref {
	return trafficrouter.Query{Kind: route.GetKind(), Namespace: route.GetNamespace(), Name: route.GetName()}.Ref()
}
