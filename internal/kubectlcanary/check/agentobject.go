package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/marks"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/scaledobject"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

func (o httpScaledObject) hasAgentsFinalizer() bool {
	return slices.Contains(o.Finalizers, marks.Finalizer)
}

// madeFrom tells whether the object was made from a ScaledObject of this name, as the agent
// sees it.
func (o httpScaledObject) madeFrom(from scaledObject) bool {
	if owner := metav1.GetControllerOf(&o); owner != nil {
		return owner.Kind == scaledobject.Kind && owner.Name == from.Name
	}
	return o.hasAgentsFinalizer()
}

// checkInStep: what the agent made of a ScaledObject is there, is its own, and says what the
// trigger says. That its Service is the stable one is target-service's to say.
func checkInStep(s snapshot, ro *v1alpha1.Rollout, config kedify.Config) []Result {
	if s.objects.httpScaledObjects.Err != nil {
		return nil // reported by httpscaledobject-exists
	}
	var results []Result
	for _, name := range config.Names() {
		if o := s.objects.httpScaledObject(name); o != nil && o.DeletionTimestamp != nil && o.hasAgentsFinalizer() {
			results = append(results, checkDeletion(s.agent, *o))
		}
	}
	for _, from := range s.objects.scaledObjectsOf(ro.Name) {
		o := s.objects.httpScaledObject(from.Name)
		switch {
		case !s.agent.serves(from), o == nil && slices.Contains(config.Names(), from.Name): // reported by httpscaledobject-exists
		case o == nil:
			results = append(results, failure(object("HTTPScaledObject", from.Namespace, from.Name), "does not exist"+s.agent.away()+s.agent.said(scaledobject.Kind, from.Name), describe("scaledobject", from.Namespace, from.Name)))
		case o.DeletionTimestamp == nil:
			results = append(results, checkInStepWith(s.agent, *o, from))
		}
	}
	return results
}

// checkDeletion looks at an object that waits for the agent to take the finalizer off.
func checkDeletion(a agentSnapshot, o httpScaledObject) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if a.away() == "" {
		return warning(at, "is being deleted with its ScaledObject: requests go to the stable Service", "if that is not intended, apply the ScaledObject again, from which the agent makes it anew")
	}
	return failure(at, "is being deleted, and waits for the agent to take the finalizer "+marks.Finalizer+" off"+a.away(),
		fmt.Sprintf(`start the agent (see agent-ready); or, once no Ingress points at %s for it: kubectl -n %s patch httpscaledobject %s --type=json -p '[{"op":"remove","path":"/metadata/finalizers/%d"}]'`,
			proxyService, o.Namespace, o.Name, slices.Index(o.Finalizers, marks.Finalizer)))
}

func checkInStepWith(a agentSnapshot, o httpScaledObject, from scaledObject) Result {
	at := object("HTTPScaledObject", o.Namespace, o.Name)
	if !o.madeFrom(from) {
		return warning(at, fmt.Sprintf("was not made from ScaledObject %s: the agent leaves it alone, and it does not follow the trigger", from.Name),
			fmt.Sprintf("hand it over: kubectl -n %s annotate httpscaledobject %s %s=true", o.Namespace, o.Name, marks.Adopt))
	}
	if why := a.refusal(from); why != "" {
		return failure(at, "stays as it was, as the agent does not take the trigger: "+why, fmt.Sprintf("correct it: kubectl -n %s edit scaledobject %s", from.Namespace, from.Name))
	}
	for _, metadata := range from.kedifyTriggers() {
		wanted := map[string][]string{"hosts": words(metadata["hosts"])}
		have := map[string][]string{"hosts": o.Spec.Hosts}
		if prefixes, has := metadata["pathPrefixes"]; has {
			wanted["pathPrefixes"], have["pathPrefixes"] = words(prefixes), o.Spec.PathPrefixes
		}
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			slices.Sort(wanted[key])
			if got := slices.Sorted(slices.Values(have[key])); !slices.Equal(wanted[key], got) {
				return failure(at, fmt.Sprintf("spec.%s is %s, and the trigger of ScaledObject %s says %s: the agent has not taken it", key, strings.Join(got, ", "), from.Name, strings.Join(wanted[key], ", "))+
					a.away()+a.said(scaledobject.Kind, from.Name), describe("scaledobject", from.Namespace, from.Name))
			}
		}
	}
	return ok(at, "says what ScaledObject "+from.Name+" says")
}

// describe returns the command that shows an object and its Events.
func describe(kind, namespace, name string) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", namespace, kind, name)
}
