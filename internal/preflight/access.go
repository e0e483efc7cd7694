package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// roleName is the ClusterRole, and its binding, that deploy/rbac installs.
const roleName = "argo-rollouts-kedify-http"

// required are the verbs without which no weight is set; the others save
// requests, and find splits that were left behind.
var required = []string{"get", "patch"}

// checkControllerAccess: the controller's ServiceAccount may do with
// HTTPScaledObjects what the plugin does.
func checkControllerAccess(c controllerSnapshot) []Result {
	const check = "controller-access"
	if c.deployment == nil {
		return nil
	}
	namespace, name := serviceAccountOf(c.deployment)
	at := object("ServiceAccount", namespace, name)
	var results []Result
	var denied, deniedOptional []access
	for _, a := range c.access {
		switch {
		case a.allowed.Err != nil:
			result := couldNotLook(check, at, a.allowed.Err)
			if a.allowed.Err.forbidden() {
				result.Remedy = "ask somebody who may impersonate it: " + canIAs(a, namespace, name)
			}
			results = append(results, result)
		case a.allowed.Value:
		case slices.Contains(required, a.verb):
			denied = append(denied, a)
		default:
			deniedOptional = append(deniedOptional, a)
		}
	}
	remedy := grant(c, namespace, name)
	if len(denied) > 0 {
		results = append(results, failure(check, at, fmt.Sprintf("may not %s, so no weight can be set%s", accessText(denied), c.boundInstead(namespace, name)), remedy))
	}
	if len(deniedOptional) > 0 {
		results = append(results, warning(check, at, fmt.Sprintf("may not %s: every call then reads the API server, and splits that a Rollout no longer names are not taken off", accessText(deniedOptional)), remedy))
	}
	if len(results) == 0 && len(c.access) > 0 {
		results = append(results, ok(check, at, "may "+accessText(c.access)))
	}
	return results
}

// grant says which role to apply, to whom.
func grant(c controllerSnapshot, namespace, name string) string {
	return fmt.Sprintf("kubectl apply -k deploy/rbac (ClusterRole and ClusterRoleBinding %s), with the subject ServiceAccount %s/%s, or: kubectl create clusterrolebinding %s-%s --clusterrole=%s --serviceaccount=%s:%s; the guide's look at it: %s",
		roleName, namespace, name, roleName, name, roleName, namespace, name, c.logCommand(`httpscaled\|forbidden`))
}

// accessText joins verbs: "get and patch httpscaledobjects.http.keda.sh in
// namespace demo".
func accessText(list []access) string {
	type place struct{ resource, namespace string }
	var order []place
	verbs := map[place][]string{}
	for _, a := range list {
		p := place{a.resource, a.namespace}
		if _, seen := verbs[p]; !seen {
			order = append(order, p)
		}
		verbs[p] = append(verbs[p], a.verb)
	}
	texts := make([]string, len(order))
	for i, p := range order {
		where := "in all namespaces"
		if p.namespace != "" {
			where = "in namespace " + p.namespace
		}
		texts[i] = fmt.Sprintf("%s %s %s", strings.Join(verbs[p], ", "), p.resource, where)
	}
	return strings.Join(texts, "; ")
}

// boundInstead names the subjects of the binding when the controller's
// ServiceAccount is not among them, the usual mistake.
func (c controllerSnapshot) boundInstead(namespace, name string) string {
	if c.binding.Err != nil {
		return ""
	}
	var others []string
	for _, subject := range c.binding.Value.Subjects {
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
	return fmt.Sprintf("; ClusterRoleBinding %s binds %s instead", roleName, strings.Join(others, ", "))
}

func canIAs(a access, namespace, name string) string {
	scope := "--all-namespaces"
	if a.namespace != "" {
		scope = "-n " + a.namespace
	}
	return fmt.Sprintf("kubectl auth can-i %s %s %s --as system:serviceaccount:%s:%s", a.verb, a.resource, scope, namespace, name)
}
