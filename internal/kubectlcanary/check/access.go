package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

// kedifyNeeds returns the access that the plugin kedify/http needs for Rollouts of a
// namespace; watched is the one namespace that it watches, empty for all, and selfHeals
// whether it writes between two calls.
func kedifyNeeds(namespace, watched string, selfHeals bool) []access {
	const objects, rollouts, events = "httpscaledobjects.http.keda.sh", "rollouts.argoproj.io", "events"
	const unwatched = "every call then reads the API server, changed splits are not put back, and splits that a Rollout no longer names are not taken off"
	const unseen = "splits whose Rollout is deleted are not taken off"
	needs := []access{
		{verb: "get", resource: objects, namespace: namespace},
		{verb: "patch", resource: objects, namespace: namespace},
		{verb: "list", resource: objects, namespace: watched, without: unwatched},
		{verb: "watch", resource: objects, namespace: watched, without: unwatched},
		{verb: "get", resource: rollouts, namespace: namespace, without: "changed splits are not put back, and every other Rollout is taken to own its splits"},
		{verb: "create", resource: events, namespace: namespace, without: "warnings are in the controller's log alone"},
	}
	if selfHeals {
		needs = append(needs,
			access{verb: "list", resource: rollouts, namespace: watched, without: unseen},
			access{verb: "watch", resource: rollouts, namespace: watched, without: unseen})
	}
	return needs
}

// gatewayNeeds returns the access that the plugin for routes of the Gateway API needs for
// Rollouts of a namespace with these routes.
func gatewayNeeds(namespace, watched string, routes []routesAt) []access {
	const unwatched = "every call then reads the API server, changed routes are not put back, and routes that a Rollout no longer names are not restored"
	var needs []access
	for _, r := range routes {
		resource := r.kind.Resource() + "." + gatewayapi.Group
		needs = append(needs,
			access{verb: "get", resource: resource, namespace: r.namespace},
			access{verb: "patch", or: "update", resource: resource, namespace: r.namespace},
			access{verb: "list", resource: resource, namespace: watched, without: unwatched},
			access{verb: "watch", resource: resource, namespace: watched, without: unwatched})
	}
	if slices.ContainsFunc(routes, func(r routesAt) bool { return r.namespace != namespace }) {
		needs = append(needs, access{verb: "list", resource: "referencegrants." + gatewayapi.Group, namespace: namespace, without: "what a gateway has against a rule of others holds a canary"})
	}
	return append(needs,
		access{verb: "get", resource: "services", namespace: namespace, without: "experiments with a weight get no requests, and what a gateway has against a rule of others holds a canary"},
		access{verb: "get", resource: "rollouts.argoproj.io", namespace: namespace, without: "changed routes are not put back, and every other Rollout is taken to own its rules"},
		access{verb: "create", resource: "events", namespace: namespace, without: "warnings are in the controller's log alone"})
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

// checkControllerAccess: the controller's ServiceAccount may do what the plugin
// does.
func checkControllerAccess(c controllerSnapshot, p pluginSnapshot) []Result {
	if c.deployment == nil {
		return nil
	}
	namespace, name := serviceAccountOf(c.deployment)
	return accessResults(c, p.access, "so no weight can be set"+p.boundInstead(namespace, name), p.grant(c, namespace, name))
}

// accessResults says which access in list the controller's ServiceAccount lacks. fatal is
// what follows if it lacks access that the plugin cannot work without.
func accessResults(c controllerSnapshot, list []access, fatal, remedy string) []Result {
	namespace, name := serviceAccountOf(c.deployment)
	at := object("ServiceAccount", namespace, name)
	var results []Result
	denied := map[string][]access{} // by what does not work without
	var order []string
	for _, a := range list {
		switch {
		case a.allowed.Err != nil:
			result := couldNotLook(at, a.allowed.Err)
			if a.allowed.Err.forbidden() {
				result.Remedy = "ask somebody who may impersonate it: " + canIAs(a, namespace, name)
			}
			results = append(results, result)
		case !a.allowed.Value:
			if _, seen := denied[a.without]; !seen {
				order = append(order, a.without)
			}
			denied[a.without] = append(denied[a.without], a)
		}
	}
	for _, without := range order {
		may := "may not " + accessText(denied[without])
		if without == "" {
			results = append(results, failure(at, may+", "+fatal, remedy))
		} else {
			results = append(results, warning(at, may+": "+without, remedy))
		}
	}
	if len(results) == 0 && len(list) > 0 {
		results = append(results, ok(at, "may "+accessText(list)))
	}
	return results
}

// grant says which role to apply, to whom.
func (p pluginSnapshot) grant(c controllerSnapshot, namespace, name string) string {
	return fmt.Sprintf("kubectl apply -k %s (ClusterRole and ClusterRoleBinding %s), with the subject ServiceAccount %s/%s, or: kubectl create clusterrolebinding %s-%s --clusterrole=%s --serviceaccount=%s:%s; the guide's look at it: %s",
		p.deploy, p.role, namespace, name, p.role, name, p.role, namespace, name, c.logCommand(p.log))
}

// accessText joins verbs: "get and patch httpscaledobjects.http.keda.sh in
// namespace demo".
func accessText(list []access) string {
	type place struct{ object, namespace string }
	var order []place
	verbs := map[place][]string{}
	for _, a := range list {
		p := place{a.object(), a.namespace}
		if _, seen := verbs[p]; !seen {
			order = append(order, p)
		}
		verb := a.verb
		if a.or != "" {
			verb += " or " + a.or
		}
		verbs[p] = append(verbs[p], verb)
	}
	texts := make([]string, len(order))
	for i, p := range order {
		where := "in all namespaces"
		if p.namespace != "" {
			where = "in namespace " + p.namespace
		}
		texts[i] = fmt.Sprintf("%s %s %s", strings.Join(verbs[p], ", "), p.object, where)
	}
	return strings.Join(texts, "; ")
}

// boundInstead names the subjects of the binding when the controller's
// ServiceAccount is not among them, the usual mistake.
func (p pluginSnapshot) boundInstead(namespace, name string) string {
	if p.binding.Err != nil {
		return ""
	}
	var others []string
	for _, subject := range p.binding.Value.Subjects {
		if subject.Kind != "ServiceAccount" {
			continue
		}
		if subject.Namespace == namespace && subject.Name == name {
			return ""
		}
		others = append(others, subject.Namespace+"/"+subject.Name)
	}
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("; ClusterRoleBinding %s binds %s instead", p.role, strings.Join(others, ", "))
}

// object is the resource, with the name of the object where the access is to one.
func (a access) object() string { return strings.TrimSuffix(a.resource+"/"+a.name, "/") }

func canIAs(a access, namespace, name string) string {
	scope := "--all-namespaces"
	if a.namespace != "" {
		scope = "-n " + a.namespace
	}
	return fmt.Sprintf("kubectl auth can-i %s %s %s --as system:serviceaccount:%s:%s", a.verb, a.object(), scope, namespace, name)
}
