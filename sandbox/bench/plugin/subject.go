package main

import (
	"encoding/json"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// subject is a plugin to measure, and the builds to compare it with.
type subject struct {
	name string
	// plugin, idle and slow are the paths of the build as released, of a build
	// whose calls do nothing, and of one that client-go throttles, which slowly
	// describes.
	plugin, idle, slow, slowly string
	// resource is the resource of the objects that the plugin writes, and what is
	// their name in output; object makes the object of a given name.
	what     string
	resource schema.GroupVersionResource
	object   func(name string) *unstructured.Unstructured
	// status, if set, is the status of the objects that are reconciled.
	status map[string]any
	// rollouts is how many objects have a Rollout in the cluster. The plugins watch
	// Rollouts, and clean up after Rollouts that do not exist.
	rollouts int
	// configuration is the plugin's configuration in the Rollout of a given name.
	configuration func(name string) map[string]json.RawMessage
	// mostMemory and mostSize are the bars, in MB.
	mostMemory, mostSize float64
}

// rollout returns the i-th Rollout as the controller sends it with each call.
func (s subject) rollout(i int) *v1alpha1.Rollout { return rollout(i, s.configuration(name(i))) }
