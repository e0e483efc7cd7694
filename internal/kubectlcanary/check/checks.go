package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// check is one thing that is looked at. Its functions return a result for each object
// that they have looked at, and none where there is nothing to look at; the id of the
// results is the check's.
type check struct {
	// id is the stable, kebab-case name, which reports show and people's scripts use.
	id string
	// means is what ✓ means, in the Markdown of docs/reference/check.md.
	means string
	// installation looks at what concerns no Rollout in particular.
	installation func(snapshot) []Result
	// rollout looks at one Rollout.
	rollout func(subject) []Result
	// ofManifests is true where rollout needs nothing but the Rollout's spec, so that
	// it also looks at manifests.
	ofManifests bool
}

// These two also report on files without a Rollout that can be read.
var (
	rolloutFound = check{
		id: "rollout-found", means: "the Rollout exists, and can be read; without a name, one that uses a plugin of ours, or has `trafficRouting` without a router, does",
		installation: checkRolloutsFound,
		rollout:      checkRolloutFound,
	}
	fieldsOfManifest = check{
		id: "manifest-fields", means: "with `-f`: Argo Rollouts has every field of the manifest, the router's plugin among them in its place",
		rollout: checkFields, ofManifests: true,
	}
)

// checks are all checks, in the order in which they are made and documented:
// everything that concerns the installation, then Rollout by Rollout.
//
// A check is here if its fault is otherwise silent, or if a page for users tells how to
// look for it: what the API server, a controller or a gateway says of an object is one line.
var checks = []check{
	{
		id: "controller-found", means: "the Argo Rollouts controller is there, and its pods are ready and have not just failed",
		installation: checkController,
	}, {
		id: "plugin-registered", means: "`argo-rollouts-config` can be read by the controller, and has the plugin that Rollouts use once, under that name, among the traffic routers",
		installation: checkRegistered,
	}, {
		id: "plugin-location", means: "the location is a URL, not the file that the controller writes itself, without credentials in it, and the SHA-256 is well-formed",
		installation: ofFiles(checkLocation),
	}, {
		id: "plugin-platform", means: "the name of the asset is that of the platform of the nodes that the controller runs on",
		installation: ofFiles(checkPlatform),
	}, {
		id: "plugin-download", means: "with `--download`: the file can be fetched, and has the pinned SHA-256",
		installation: ofFiles(checkDownload),
	}, {
		id: "controller-restarted", means: "the controller started after the last change of the ConfigMap",
		installation: checkRestarted,
	}, {
		id: "controller-access", means: "the controller's ServiceAccount may do what the plugin does (subject access reviews): `kedify/http` get, patch, list and watch HTTPScaledObjects, get, list and watch Rollouts, and create Events; the Gateway API router get, patch or update, list and watch each kind of route that is used, get Services and Rollouts, and create Events; lists and watches in the namespace of `--watch-namespace`, where that is set",
		installation: ofPlugins(checkControllerAccess),
	}, {
		id: "step-plugin-registered", means: "what `stepPlugins` of `argo-rollouts-config` registers of this project's step plugin has a name that Argo Rollouts takes, once, a kind of step that there is, and args that the plugin takes; of the kind http also a host that requests may go to",
		installation: checkStepPlugins,
	}, {
		id: "step-plugin-preset", means: "the preset of each registration exists, and is valid; so are the presets that steps can name",
		installation: checkPresets,
	}, {
		id: "step-plugin-regions", means: "the Secret of each cluster that a preset names can be used, and with its credentials that cluster lists and watches Rollouts; asked from where the check runs",
		installation: checkRegions,
	}, {
		id: "agent-ready", means: "pods of the agent are ready, and its webhook has a `caBundle`; only where the agent has made something",
		installation: checkAgent,
	},
	rolloutFound,
	fieldsOfManifest,
	{
		id: "rollout-router", means: "`trafficRouting` has a router: the API server drops one under a field that it does not know",
		rollout: checkRouter, ofManifests: true,
	}, {
		id: "rollout-config", means: "it is a canary with one of the routers, and the plugin's configuration is valid, and has no unknown key",
		rollout: checkConfig, ofManifests: true,
	}, {
		id: "rollout-steps", means: "each plugin step names a step plugin that is registered and not disabled, its configuration is one that its kind takes with the preset, no id is given twice, and no step refers to the outputs of one that is not before it. With `-f`, which knows no registration and no preset, only ids, references, names and what a step of `kedify/step` itself says are looked at: `rollouts-plugin-step lint` looks at files as a whole",
		rollout: checkSteps, ofManifests: true,
	}, {
		id: "rollout-health", means: "the controller acts on the Rollout, and it is neither Degraded nor aborted; in the words of its status, and of its last Event `TrafficRoutingError`",
		rollout: checkHealth,
	}, {
		id: "services-exist", means: "both Services exist",
		rollout: checkServicesExist,
	}, {
		id: "service-selectors", means: "both Services select the Rollout's pods, each its own side during a canary",
		rollout: checkSelectors,
	}, {
		id: "httpscaledobject-exists", means: "each HTTPScaledObject that is named exists",
		rollout: ofKedify(checkHTTPScaledObjects),
	}, {
		id: "target-service", means: "its `scaleTargetRef.service` is the stable Service, and both Services have its port",
		rollout: ofObjects(checkTargetService),
	}, {
		id: "annotation", means: "the split can be read, is this Rollout's, and is what the Rollout's status says; none was left behind elsewhere",
		installation: checkOrphans,
		rollout:      ofObjects(checkSplit),
	}, {
		id: "backends-ready", means: "each side with weight has ready endpoints, or KEDA starts the Rollout with the next request; else whether its ReplicaSet is at 0 replicas, and why",
		rollout: checkBackends,
	}, {
		id: "kedify-proxy-split", means: "every kedify-proxy in the namespace has an active cluster for each Service with weight, and the weights of the annotation in its routes. Without a Service `kedify-proxy-admin` or `kedify-proxy` there is nothing to look at",
		rollout: ofKedify(checkKedifyProxies),
	}, {
		id: "interceptor-split", means: "every interceptor serves the weights of the annotation. Kedify's own does not show its routes, so that there is nothing to look at",
		rollout: ofKedify(checkInterceptors),
	}, {
		id: "route-exists", means: "each route that is named exists, in a kind that the cluster serves, and each selector selects one",
		rollout: checkRoutesExist,
	}, {
		id: "route-rules", means: "each route has a rule with both Services in its `backendRefs` that no other Rollout splits, and each rule that `rules` singles out is one",
		rollout: ofRoutes(checkRouteRules),
	}, {
		id: "route-split", means: "each route carries the weights that the Rollout's status says (not looked at while an experiment has a weight), and the in-progress label while a canary is under way; neither was left behind on others of its kind",
		installation: checkRoutesLeft,
		rollout:      ofRoutes(checkRouteSplit),
	}, {
		id: "route-parents", means: "each of its parents says `Accepted` and `ResolvedRefs` of it as it is",
		rollout: ofRoutes(checkParents),
	}, {
		id: "ingress-wired", means: "the requests of each HTTPScaledObject pass a proxy: it has no annotation `http.kedify.io/not-wired`, which says why not",
		rollout: ofObjects(checkWired),
	}, {
		id: "scaledobject-min-replicas", means: "`minReplicaCount` is above 0, or [the scaler](../how-to/scaling.md#start-from-zero) starts the Rollout",
		rollout: ofKedify(checkMinReplicas),
	}, {
		id: "scaledobject-trigger", means: "[the scaler](scaling.md#the-trigger) can answer the `external-push` trigger: its HTTPScaledObject exists, is one that the Rollout names, and has a metric, a target and a window",
		rollout: ofKedify(checkScalerTriggers),
	}, {
		id: "scaledobject-ready", means: "KEDA says that each ScaledObject of the Rollout is ready, and that its HPA scales",
		rollout: checkScaledObjectReady,
	},
}

// Reference returns the table of all checks, in Markdown, for the reference.
func Reference() string {
	var table strings.Builder
	table.WriteString("| check | ✓ means |\n|---|---|\n")
	for _, c := range checks {
		fmt.Fprintf(&table, "| `%s` | %s |\n", c.id, c.means)
	}
	return table.String()
}

// named gives results the id of the check.
func (c check) named(results []Result) []Result {
	for i := range results {
		results[i].Check = c.id
	}
	return results
}

// subject is one Rollout that is looked at.
type subject struct {
	snapshot
	ro *v1alpha1.Rollout
	// kedify is its configuration for kedify/http; nil where it has none, or none that
	// can be read.
	kedify *kedify.Config
	// gateways are its configurations for routers of the Gateway API that can be read.
	gateways []gatewayUse
	// manifest is where the Rollout was read from; nil for one of the cluster.
	manifest *manifest
}

func subjectOf(s snapshot, ro *v1alpha1.Rollout) subject {
	r := subject{snapshot: s, ro: ro, gateways: gatewayUses(ro)}
	if kedify.Uses(ro) {
		if config, err := kedifyConfig(ro); err == nil {
			r.kedify = &config
		}
	}
	return r
}

// configured tells whether the Rollout has a configuration that can be read.
func (r subject) configured() bool { return r.kedify != nil || len(r.gateways) > 0 }

// httpScaledObjects returns those that the Rollout names and that exist.
func (r subject) httpScaledObjects() []httpScaledObject {
	var found []httpScaledObject
	for _, name := range kedifyNames(r.ro) {
		if o := r.objects.httpScaledObject(name); o != nil {
			found = append(found, *o)
		}
	}
	return found
}

// The functions below make a check's function from one that needs only a part of what a
// check gets.

// ofPlugins looks at the plugin of each router. Results name their plugin.
func ofPlugins(look func(controllerSnapshot, pluginSnapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result {
		var results []Result
		for _, p := range s.plugins {
			for _, result := range look(s.controller, p) {
				result.Message = p.name + ": " + result.Message
				results = append(results, result)
			}
		}
		return results
	}
}

// ofFiles is ofPlugins for what also concerns the files of step plugins.
func ofFiles(look func(controllerSnapshot, pluginSnapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result {
		s.plugins = slices.Concat(s.plugins, s.steps.programs)
		return ofPlugins(look)(s)
	}
}

func ofKedify(look func(subject) []Result) func(subject) []Result {
	return func(r subject) []Result {
		if r.kedify == nil {
			return nil
		}
		return look(r)
	}
}

// ofObjects looks at each HTTPScaledObject that the Rollout names.
func ofObjects(look func(subject, httpScaledObject) []Result) func(subject) []Result {
	return func(r subject) []Result {
		var results []Result
		for _, o := range r.httpScaledObjects() {
			results = append(results, look(r, o)...)
		}
		return results
	}
}

// ofRoutes looks at each route that the Rollout names or selects.
func ofRoutes(look func(subject, routeUse) []Result) func(subject) []Result {
	return func(r subject) []Result {
		var results []Result
		for _, use := range r.gateways {
			for _, route := range routesUsed(r.snapshot, r.ro, use) {
				results = append(results, look(r, route)...)
			}
		}
		return results
	}
}
