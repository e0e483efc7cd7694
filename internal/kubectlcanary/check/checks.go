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
	// means is what ✓ means, in the Markdown of docs/reference.md.
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
		id: "rollout-found", means: "the Rollout exists; without a name, one that uses a plugin of ours, or has `trafficRouting` without a router, does",
		installation: checkRolloutsFound,
		rollout:      ofAny(checkRolloutFound),
	}
	fieldsOfManifest = check{
		id: "manifest-fields", means: "with `-f`: Argo Rollouts has every field of the manifest, the router's plugin among them in its place",
		rollout: checkFields, ofManifests: true,
	}
)

// checks are all checks, in the order in which they are made and documented:
// everything that concerns the installation, then Rollout by Rollout.
var checks = []check{
	{
		id: "controller-found", means: "the Argo Rollouts controller is there, and its pods run",
		installation: ofController(checkController),
	}, {
		id: "plugin-directory", means: "the controller can write plugins to its disk",
		installation: ofController(checkPluginDirectory),
	}, {
		id: "plugin-registered", means: "`argo-rollouts-config` can be read by the controller, and has the plugin that Rollouts use once, under that name, among the traffic routers",
		installation: both(checkAnyRegistered, ofRegistrations(checkRegistered)),
	}, {
		id: "plugin-location", means: "the location is one that the controller can fetch, not the file it writes itself, without credentials in it, and the SHA-256 is well-formed",
		installation: ofFiles(checkLocation),
	}, {
		id: "plugin-platform", means: "the asset is for the platform of the nodes that the controller runs on",
		installation: ofFiles(checkPlatform),
	}, {
		id: "plugin-download", means: "with `--download`: the file has the pinned SHA-256 and is a static program",
		installation: ofFiles(checkDownload),
	}, {
		id: "controller-restarted", means: "the controller started after the last change of the ConfigMap",
		installation: ofController(checkRestarted),
	}, {
		id: "controller-access", means: "the controller's ServiceAccount may do what the plugin does (subject access reviews): `kedify/http` get, patch, list and watch HTTPScaledObjects, get, list and watch Rollouts, and create Events; the Gateway API router get, patch or update, list and watch each kind of route that is used, get Services and Rollouts, and create Events; lists and watches in the namespace of `--watch-namespace`, where that is set",
		installation: ofPlugins(checkControllerAccess),
	}, {
		id: "step-plugin-registered", means: "`stepPlugins` of `argo-rollouts-config` can be read, and what registers this project's step plugin has a name that Argo Rollouts takes, once, a kind of step that there is, and args that the plugin takes; of the kind http also a host that requests may go to",
		installation: checkStepPlugins,
	}, {
		id: "step-plugin-preset", means: "the preset of each registration exists, and is valid; so are the presets that steps can name",
		installation: checkPresets,
	}, {
		id: "step-plugin-access", means: "the controller's ServiceAccount may do what the kinds of step that are registered do (subject access reviews): [deploy/rbac-step](../deploy/rbac-step), kind by kind; and the Secrets of the clusters that presets name: [deploy/rbac-regions](../deploy/rbac-regions)",
		installation: checkStepAccess,
	}, {
		id: "step-plugin-regions", means: "the Secret of each cluster that a preset names can be used, and with its credentials that cluster lists and watches Rollouts; asked from where the check runs",
		installation: checkRegions,
	}, {
		id: "keda-access", means: "keda-operator may get Rollouts; only where a trigger of type `kedify-http` scales one",
		installation: checkKEDAAccess,
	}, {
		id: "scaler-endpoints", means: "[the scaler](scaling.md) that a trigger names has the port that it names, and ready endpoints",
		installation: checkScalers,
	},
	{
		id: "agent-ready", means: "pods of the agent are ready, and its webhook has a `caBundle`; only where a `kedify-http` trigger is the agent's",
		installation: checkAgent,
	},
	rolloutFound,
	fieldsOfManifest,
	{
		id: "rollout-strategy", means: "it is a canary",
		rollout: ofAny(checkStrategy),
	}, {
		id: "rollout-router", means: "`trafficRouting` has a router: the API server drops one under a field that it does not know",
		rollout: checkRouter, ofManifests: true,
	}, {
		id: "rollout-config", means: "the plugin's configuration is valid, and has no unknown key",
		rollout: checkConfig, ofManifests: true,
	}, {
		id: "rollout-steps", means: "each plugin step names a step plugin that is registered and not disabled, its configuration is one that its kind takes with the preset, no id is given twice, and no step refers to the outputs of one that is not before it. With `-f` only ids, references and names are looked at: `rollouts-plugin-step lint` looks at files as a whole",
		rollout: checkSteps, ofManifests: true,
	}, {
		id: "rollout-health", means: "the controller acts on the Rollout, and it is neither Degraded nor aborted",
		rollout: ofAny(checkHealth),
	}, {
		id: "services-exist", means: "both Services exist",
		rollout: ofConfigured(checkServicesExist),
	}, {
		id: "services-differ", means: "they are two",
		rollout: ofConfigured(checkServicesDiffer), ofManifests: true,
	}, {
		id: "service-selectors", means: "they select the Rollout's pods, each its own side during a canary",
		rollout: ofConfigured(checkSelectors),
	}, {
		id: "httpscaledobject-exists", means: "each HTTPScaledObject that is named exists",
		rollout: ofKedify(checkHTTPScaledObjects),
	}, {
		id: "httpscaledobject-exclusive", means: "no other Rollout names it",
		rollout: ofKedify(checkExclusive),
	}, {
		id: "httpscaledobject-in-step", means: "the HTTPScaledObject that the agent makes from a ScaledObject exists, is the agent's, is not being deleted, and has the trigger's hosts and path prefixes",
		rollout: ofKedify(checkInStep),
	}, {
		id: "target-service", means: "its `scaleTargetRef.service` is the stable Service, and both Services have its port",
		rollout: ofKedify(checkTargetServices),
	}, {
		id: "annotation", means: "the split can be read, is this Rollout's, and is what the Rollout's status says; none was left behind elsewhere",
		installation: checkOrphans,
		rollout:      ofKedify(checkAnnotations),
	}, {
		id: "backends-ready", means: "each side with weight has ready endpoints, or KEDA starts the Rollout with the next request; else why not: ReplicaSet at 0, no room for a canary pod, KEDA's minimum, pods that do not become ready",
		rollout: checkBackends,
	}, {
		id: "kedify-proxy-split", means: "every kedify-proxy in the namespace has an active cluster for each Service with weight, and the weights of the annotation in its routes. Without a Service `kedify-proxy-admin` or `kedify-proxy` there is nothing to look at",
		rollout: ofKedify(checkProxies),
	}, {
		id: "interceptor-split", means: "every interceptor serves the weights of the annotation. Kedify's own does not show its routes, so that there is nothing to look at",
		rollout: ofKedify(checkInterceptors),
	}, {
		id: "route-exists", means: "each route that is named exists, in a kind that the cluster serves, and each selector selects one",
		rollout: ofGateway(checkRoutesExist),
	}, {
		id: "route-rules", means: "each route has a rule with both Services in its `backendRefs` that no other Rollout splits, and each rule that `rules` singles out is one",
		rollout: ofGateway(checkRouteRules),
	}, {
		id: "route-split", means: "each route carries the weights that the Rollout's status says (not looked at while an experiment has a weight); none was left behind on others of its kind",
		installation: checkRoutesLeft,
		rollout:      ofGateway(checkRouteSplit),
	}, {
		id: "route-label", means: "it has the in-progress label while a canary is under way, and not at rest",
		rollout: ofGateway(checkRouteLabel),
	}, {
		id: "route-parents", means: "each of its parents says `Accepted` and `ResolvedRefs` of it as it is",
		rollout: ofGateway(checkParents),
	}, {
		id: "gateway-programmed", means: "each Gateway that it names exists, and is `Programmed`",
		rollout: ofGateway(checkGateways),
	}, {
		id: "reference-grants", means: "a ReferenceGrant allows each of its backends in another namespace; only where there are some",
		rollout: ofGateway(checkGrants),
	}, {
		id: "argocd-settings", means: "Argo CD, where it manages the route, is told in `argocd-cm` or the Application to leave `spec.rules` alone, by the label that the route has during a canary",
		rollout: ofGateway(checkArgoCD),
	}, {
		id: "ingress-wired", means: "with `trafficAutowire: ingress`: a path of an Ingress points at kedify-proxy; else why not",
		rollout: ofKedify(checkIngresses),
	}, {
		id: "kedify-http-trigger", means: "the agent's webhook has made each `kedify-http` trigger an `external-push` one. Without the agent nothing is said unless KEDA refuses it, since Kedify's KEDA knows that type",
		rollout: ofKedify(checkKedifyTriggers),
	}, {
		id: "scaledobject", means: "the `kedify-http` trigger leaves the Service to the Rollout",
		rollout: ofKedify(checkTriggers),
	}, {
		id: "scaledobject-min-replicas", means: "`minReplicaCount` is not below the Rollout's replicas, or it is 0 and [the scaler](scaling.md#from-zero) starts the Rollout",
		rollout: ofKedify(checkMinReplicas),
	}, {
		id: "scaledobject-trigger", means: "[the scaler](scaling.md#the-trigger) can answer the `external-push` trigger: its HTTPScaledObject exists, is one that the Rollout names, has a metric, a target and a window, and has its requests pass a proxy",
		rollout: ofKedify(checkScalerTriggers),
	}, {
		id: "load-reports", means: "every kedify-proxy in the namespace reports its requests; only where such a trigger scales the Rollout",
		rollout: ofKedify(checkLoadReports),
	}, {
		id: "scaledobject-ready", means: "KEDA says that each ScaledObject of the Rollout is ready and not paused, and that its HPA scales",
		rollout: ofAny(checkScaledObjectReady),
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
	if config, err := kedifyConfig(ro); err == nil {
		r.kedify = &config
	}
	return r
}

// configured tells whether the Rollout has a configuration that can be read.
func (r subject) configured() bool { return r.kedify != nil || len(r.gateways) > 0 }

// The functions below make a check's function from one that needs only a part of what a
// check gets.

func ofController(look func(controllerSnapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result { return look(s.controller) }
}

// ofPlugins looks at the plugin of each router. If there are several, results name their
// plugin.
func ofPlugins(look func(controllerSnapshot, pluginSnapshot) []Result) func(snapshot) []Result {
	return ofRegistrations(func(c controllerSnapshot, p pluginSnapshot) []Result {
		results := look(c, p)
		for i := range results {
			if p.oneOfSeveral {
				results[i].Message = p.name + ": " + results[i].Message
			}
		}
		return results
	})
}

// ofFiles is ofPlugins for what also concerns the files of step plugins.
func ofFiles(look func(controllerSnapshot, pluginSnapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result {
		s.plugins = slices.Concat(s.plugins, s.steps.programs)
		return ofPlugins(look)(s)
	}
}

// ofRegistrations is ofPlugins for results that name the plugin themselves.
func ofRegistrations(look func(controllerSnapshot, pluginSnapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result {
		var results []Result
		for _, p := range s.plugins {
			p.oneOfSeveral = len(s.plugins) > 1
			results = append(results, look(s.controller, p)...)
		}
		return results
	}
}

func both(first, second func(snapshot) []Result) func(snapshot) []Result {
	return func(s snapshot) []Result { return append(first(s), second(s)...) }
}

func ofAny(look func(snapshot, *v1alpha1.Rollout) []Result) func(subject) []Result {
	return func(r subject) []Result { return look(r.snapshot, r.ro) }
}

// ofConfigured looks at Rollouts whose configuration for one of the plugins can be
// read: with any other there is nothing more to look at.
func ofConfigured(look func(snapshot, *v1alpha1.Rollout) []Result) func(subject) []Result {
	return func(r subject) []Result {
		if !r.configured() {
			return nil
		}
		return look(r.snapshot, r.ro)
	}
}

func ofKedify(look func(snapshot, *v1alpha1.Rollout, kedify.Config) []Result) func(subject) []Result {
	return func(r subject) []Result {
		if r.kedify == nil {
			return nil
		}
		return look(r.snapshot, r.ro, *r.kedify)
	}
}

func ofGateway(look func(snapshot, *v1alpha1.Rollout, gatewayUse) []Result) func(subject) []Result {
	return func(r subject) []Result {
		var results []Result
		for _, use := range r.gateways {
			results = append(results, look(r.snapshot, r.ro, use)...)
		}
		return results
	}
}
