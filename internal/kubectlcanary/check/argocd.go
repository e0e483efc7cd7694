package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
)

const (
	// argoCDNamespace is where Argo CD's own manifests and chart install it.
	argoCDNamespace = "argocd"
	argoCDConfigMap = "argocd-cm"
	// argoCDTracking is the annotation by which Argo CD identifies its objects:
	// APPLICATION:GROUP/KIND:NAMESPACE/NAME.
	argoCDTracking = "argocd.argoproj.io/tracking-id"
	// argoCDIgnore is the prefix of the keys of argocd-cm that say which differences
	// to ignore; the kind, or "all", follows.
	argoCDIgnore = "resource.customizations.ignoreDifferences."
)

// argoCDSnapshot is what Argo CD's settings say, read only where it manages a route.
type argoCDSnapshot struct {
	config       read[*corev1.ConfigMap]
	applications map[types.NamespacedName]read[argoCDApplication]
}

// argoCDApplication is the part of an Application that the checks read.
type argoCDApplication struct {
	Spec struct {
		IgnoreDifferences []struct {
			Group             string   `json:"group"`
			Kind              string   `json:"kind"`
			Name              string   `json:"name"`
			JSONPointers      []string `json:"jsonPointers"`
			JQPathExpressions []string `json:"jqPathExpressions"`
		} `json:"ignoreDifferences"`
		SyncPolicy struct {
			Automated *struct {
				SelfHeal bool `json:"selfHeal"`
			} `json:"automated"`
		} `json:"syncPolicy"`
	} `json:"spec"`
}

// applicationOf returns the Application that a route belongs to, and whether Argo CD
// manages the route at all: by its annotation, its label, or as a field manager.
func applicationOf(route *unstructured.Unstructured) (name types.NamespacedName, managed bool) {
	if id := route.GetAnnotations()[argoCDTracking]; id != "" {
		name.Namespace, name.Name = argoCDNamespace, id
		name.Name, _, _ = strings.Cut(name.Name, ":")
		if namespace, app, elsewhere := strings.Cut(name.Name, "_"); elsewhere {
			name.Namespace, name.Name = namespace, app
		}
		return name, true
	}
	if app := route.GetLabels()["argocd.argoproj.io/instance"]; app != "" {
		return types.NamespacedName{Namespace: argoCDNamespace, Name: app}, true
	}
	for _, entry := range route.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "argocd-") {
			app := route.GetLabels()["app.kubernetes.io/instance"]
			return types.NamespacedName{Namespace: argoCDNamespace, Name: app}, true
		}
	}
	return name, false
}

func gatherArgoCD(ctx context.Context, c *cluster, routes []*unstructured.Unstructured) argoCDSnapshot {
	var applications []types.NamespacedName
	found := false
	for _, route := range routes {
		name, managed := applicationOf(route)
		found = found || managed
		if name.Name != "" {
			applications = append(applications, name)
		}
	}
	var a argoCDSnapshot
	if !found {
		return a
	}
	config := get[corev1.ConfigMap](ctx, c, target{version: "v1", resource: "configmaps", namespace: argoCDNamespace, name: argoCDConfigMap})
	if a.config.Err = config.Err; config.Err == nil {
		a.config.Value = &config.Value
	}
	a.applications = readAll(applications, func(name types.NamespacedName) read[argoCDApplication] {
		return get[argoCDApplication](ctx, c, target{group: "argoproj.io", version: "v1alpha1", resource: "applications", namespace: name.Namespace, name: name.Name})
	})
	return a
}

// ignored returns the paths of a route that Argo CD's settings, as far as they could be
// read, say to ignore: JSON pointers and expressions of jq.
func (a argoCDSnapshot) ignored(route *unstructured.Unstructured) string {
	var paths []string
	if a.config.Value != nil {
		for _, kind := range []string{"all", gatewayapi.Group + "_" + route.GetKind()} {
			paths = append(paths, a.config.Value.Data[argoCDIgnore+kind])
		}
	}
	name, _ := applicationOf(route)
	for _, ignore := range a.applications[name].Value.Spec.IgnoreDifferences {
		matches := func(pattern, value string) bool { return pattern == "" || pattern == "*" || pattern == value }
		if matches(ignore.Group, gatewayapi.Group) && matches(ignore.Kind, route.GetKind()) && matches(ignore.Name, route.GetName()) {
			paths = append(append(paths, ignore.JSONPointers...), ignore.JQPathExpressions...)
		}
	}
	return strings.Join(paths, "\n")
}

// checkArgoCD: Argo CD leaves the rules of the routes that it manages alone while a
// canary is under way.
func checkArgoCD(s snapshot, ro *v1alpha1.Rollout, use gatewayUse) []Result {
	var results []Result
	for _, route := range routesUsed(s, ro, use) {
		if name, managed := applicationOf(route.Unstructured); managed {
			results = append(results, checkArgoCDOf(s.gateway.argoCD, route, use.config.Label, name))
		}
	}
	return results
}

func checkArgoCDOf(a argoCDSnapshot, route routeUse, label gatewayapi.Label, application types.NamespacedName) Result {
	ignored := a.ignored(route.Unstructured)
	condition := fmt.Sprintf(`.metadata.labels[%q] == %q`, label.Key, label.Value)
	if label.Key == "" {
		condition = "" // disabled
	}
	recipe := fmt.Sprintf("set in ConfigMap %s/%s %s%s_%s to: jqPathExpressions: ['%s']", argoCDNamespace, argoCDConfigMap, argoCDIgnore, gatewayapi.Group, route.GetKind(), rulesWhile(condition))
	rules := slices.ContainsFunc([]string{".spec.rules", "/spec/rules"}, func(path string) bool { return strings.Contains(ignored, path) })
	conditional := strings.Contains(ignored, "select(")
	switch {
	case rules && conditional && label.Key == "":
		return failure(route.at(), "Argo CD leaves spec.rules alone under a condition, and the Rollout disables the in-progress label", "take disableInProgressLabel out of the Rollout's configuration, or the condition out of Argo CD's settings")
	case rules && conditional && (!strings.Contains(ignored, label.Key) || !strings.Contains(ignored, label.Value)):
		return failure(route.at(), fmt.Sprintf("Argo CD leaves spec.rules alone under a condition that does not name the label %s=%s", label.Key, label.Value), recipe)
	case rules && conditional:
		return ok(route.at(), fmt.Sprintf("Argo CD leaves spec.rules alone while the route has the label %s=%s", label.Key, label.Value))
	case rules:
		return ok(route.at(), "Argo CD leaves spec.rules alone")
	}
	app, known := a.applications[application]
	for _, err := range []*readError{a.config.Err, app.Err} {
		if err != nil && !err.notFound() {
			result := couldNotLook(route.at(), err)
			result.Message = strings.Replace(result.Message, "could not look", "Argo CD manages it, its settings were not looked at", 1)
			return result
		}
	}
	message := "Argo CD manages it, and is not told to leave spec.rules alone: during a canary it shows the route as out of sync, and "
	automated := app.Value.Spec.SyncPolicy.Automated
	switch {
	case automated != nil && automated.SelfHeal:
		return failure(route.at(), message+"its self-heal takes the weights back", recipe)
	case !known || app.Err != nil:
		return warning(route.at(), message+"a sync takes the weights back, or its self-heal at once", recipe)
	}
	return warning(route.at(), message+"a sync takes the weights back", recipe)
}

// rulesWhile returns the expression of jq for the rules of a route under a condition.
func rulesWhile(condition string) string {
	if condition == "" {
		return ".spec.rules"
	}
	return "select(" + condition + ") | .spec.rules"
}
