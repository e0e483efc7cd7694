package check

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// access is the answer to one subject access review.
type access struct {
	verb, resource string
	// or is a verb that is as good; empty if there is none.
	or string
	// namespace is empty for all namespaces.
	namespace string
	// optional is true where only some of what the plugin does needs it: the permissions in its
	// reference say what.
	optional bool
	allowed  read[bool]
}

// What needs optional access does not work without it, and the rest does.
const needed, optional = false, true

// need returns access in a namespace, empty for all, from "verb resource" each.
func need(namespace string, optional bool, list ...string) []access {
	var all []access
	for _, text := range list {
		verb, resource, _ := strings.Cut(text, " ")
		all = append(all, access{verb: verb, resource: resource, namespace: namespace, optional: optional})
	}
	return all
}

// kedifyNeeds returns the access that the plugin kedify/http needs for Rollouts of a
// namespace; watched is the one namespace that it watches, empty for all, and selfHeals
// whether it writes between two calls.
func kedifyNeeds(namespace, watched string, selfHeals bool) []access {
	const objects, rollouts = " httpscaledobjects.http.keda.sh", " rollouts.argoproj.io"
	needs := slices.Concat(
		need(namespace, needed, "get"+objects, "patch"+objects),
		need(watched, optional, "list"+objects, "watch"+objects),
		need(namespace, optional, "get"+rollouts, "create events"))
	if selfHeals {
		needs = append(needs, need(watched, optional, "list"+rollouts, "watch"+rollouts)...)
	}
	return needs
}

// gatewayNeeds returns the access that the plugin for routes of the Gateway API needs for
// Rollouts of a namespace with these routes.
func gatewayNeeds(namespace, watched string, routes []routesAt) []access {
	needs := need(namespace, optional, "get services", "get rollouts.argoproj.io", "create events")
	for _, r := range routes {
		resource := r.kind.Resource() + "." + gatewayapi.Group
		needs = slices.Concat(needs,
			need(r.namespace, needed, "get "+resource),
			[]access{{verb: "patch", or: "update", resource: resource, namespace: r.namespace}},
			need(watched, optional, "list "+resource, "watch "+resource))
		if r.namespace != namespace {
			needs = append(needs, need(namespace, optional, "list referencegrants."+gatewayapi.Group)...)
		}
	}
	return needs
}

// watchNamespace is the plugin's flag --watch-namespace in its registration.
func watchNamespace(item *plugintypes.PluginItem) string { return flagValue(item, "--watch-namespace") }

// selfHeals is the plugin's flag --self-heal in its registration, true if it is
// left out.
func selfHeals(item *plugintypes.PluginItem) bool {
	on, err := strconv.ParseBool(flagValue(item, "--self-heal"))
	return err != nil || on
}

// flagValue is the value of a flag among the plugin's args; empty if it is left
// out.
func flagValue(item *plugintypes.PluginItem, flag string) string {
	if item == nil {
		return ""
	}
	for i, arg := range item.Args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			return value
		}
		if arg == flag && i+1 < len(item.Args) {
			return item.Args[i+1]
		}
	}
	return ""
}

// gatherAccess asks whether the controller's ServiceAccount has access.
func gatherAccess(ctx context.Context, c *cluster, controller *deployment, list []access) []access {
	namespace, name := serviceAccountOf(controller)
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			a := &list[i]
			a.allowed = mayDo(ctx, c, namespace, name, *a, a.verb)
			if a.or != "" && a.allowed.Err == nil && !a.allowed.Value {
				a.allowed = mayDo(ctx, c, namespace, name, *a, a.or)
			}
		})
	}
	wg.Wait()
	return list
}

// mayDo asks the API server whether a ServiceAccount may do something. A user who may
// not create a SubjectAccessReview may be allowed a LocalSubjectAccessReview.
func mayDo(ctx context.Context, c *cluster, namespace, serviceAccount string, a access, verb string) read[bool] {
	resource, group, _ := strings.Cut(a.resource, ".")
	review := accessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}}
	review.Spec.ResourceAttributes = resourceAttributes{Namespace: a.namespace, Verb: verb, Group: group, Resource: resource}
	review.Spec.User = fmt.Sprintf("system:serviceaccount:%s:%s", namespace, serviceAccount)
	review.Spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	reviews := target{group: "authorization.k8s.io", version: "v1", resource: "subjectaccessreviews"}
	answer := create[accessReview](ctx, c, reviews, review)
	if answer.Err != nil && answer.Err.forbidden() && a.namespace != "" {
		review.Kind, review.Metadata.Namespace = "LocalSubjectAccessReview", a.namespace
		reviews.resource, reviews.namespace = "localsubjectaccessreviews", a.namespace
		if local := create[accessReview](ctx, c, reviews, review); local.Err == nil {
			answer = local
		}
	}
	return read[bool]{Value: answer.Value.Status.Allowed, Err: answer.Err}
}

// checkControllerAccess: the controller's ServiceAccount may do what the plugin does.
func checkControllerAccess(c controllerSnapshot, p pluginSnapshot) []Result {
	if c.deployment == nil {
		return nil
	}
	namespace, name := serviceAccountOf(c.deployment)
	at := object("ServiceAccount", namespace, name)
	var results []Result
	var needs, wants, unknown []access
	for _, a := range p.access {
		switch {
		case a.allowed.Err != nil:
			unknown = append(unknown, a)
		case a.allowed.Value:
		case a.optional:
			wants = append(wants, a)
		default:
			needs = append(needs, a)
		}
	}
	if len(unknown) > 0 {
		result := couldNotLook(at, unknown[0].allowed.Err)
		result.Message += "; so it is not known whether it may " + accessText(unknown)
		result.Remedy += fmt.Sprintf("; or ask somebody who may impersonate it: kubectl auth can-i %s %s%s --as system:serviceaccount:%s:%s", unknown[0].verb, unknown[0].resource, scope(unknown[0].namespace), namespace, name)
		results = append(results, result)
	}
	remedy := fmt.Sprintf("kubectl apply -k %s, with the subject ServiceAccount %s/%s; the controller's log says more: %s", p.deploy(), namespace, name, c.logCommand(p.log()))
	if len(needs) > 0 {
		results = append(results, failure(at, "may not "+accessText(needs)+", so no weight can be set", remedy))
	}
	if len(wants) > 0 {
		results = append(results, warning(at, "may not "+accessText(wants)+": what needs that does not work (docs/reference/permissions.md)", remedy))
	}
	if len(results) == 0 {
		results = append(results, ok(at, "may "+accessText(p.access)))
	}
	return results
}

// accessText joins verbs: "get, patch httpscaledobjects.http.keda.sh in namespace demo".
func accessText(list []access) string {
	var texts []string
	place := ""
	for _, a := range list {
		verb := a.verb
		if a.or != "" {
			verb += " or " + a.or
		}
		in := "in all namespaces"
		if a.namespace != "" {
			in = "in namespace " + a.namespace
		}
		if now := a.resource + " " + in; now == place {
			last := &texts[len(texts)-1]
			*last = strings.Replace(*last, " "+place, ", "+verb+" "+place, 1)
		} else {
			place = now
			texts = append(texts, verb+" "+place)
		}
	}
	return strings.Join(texts, "; ")
}
