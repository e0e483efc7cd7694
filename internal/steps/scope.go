package steps

import (
	"strconv"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutspec"
)

// Scope returns what the texts and expressions of a step can refer to. It holds only maps,
// strings and numbers. Package cel declares the same names.
//
//	rollout   name, namespace, uid, labels, annotations
//	images    new: the image of each container by its name; old: those of the stable
//	          version, none if old is nil
//	hash      new, old: the pod template hashes
//	services  stable, canary
//	step      index (from 0), id, key, plugin (the registered name), preset (empty for none)
//	weight    the canary's weight now
//	revision  the Rollout's revision
//	abort     reason: why the canary was aborted, empty where that is not known
//	steps     by id: outputs of the canary's steps so far
func Scope(work Work, old *corev1.PodTemplateSpec) map[string]any {
	ro := work.Rollout
	stable, canary := rolloutspec.Services(ro)
	weight := int32(0)
	if weights := ro.Status.Canary.Weights; weights != nil {
		weight = weights.Canary.Weight
	}
	return map[string]any{
		"rollout": map[string]any{
			"name": ro.Name, "namespace": ro.Namespace, "uid": string(ro.UID),
			"labels": ro.Labels, "annotations": ro.Annotations,
		},
		"images":   map[string]any{"new": imagesOf(&ro.Spec.Template), "old": imagesOf(old)},
		"hash":     map[string]any{"new": ro.Status.CurrentPodHash, "old": ro.Status.StableRS},
		"services": map[string]any{"stable": stable, "canary": canary},
		"step":     map[string]any{"index": int(work.Index), "id": work.ID, "key": work.Key, "plugin": work.PluginName, "preset": work.Preset},
		"weight":   int(weight),
		"revision": revisionOf(ro),
		"abort":    map[string]any{"reason": work.AbortReason},
		"steps":    outputsOf(work),
	}
}

func revisionOf(ro *v1alpha1.Rollout) int {
	revision, _ := strconv.Atoi(ro.Annotations[revisionAnnotation])
	return revision
}

func imagesOf(template *corev1.PodTemplateSpec) map[string]any {
	images := map[string]any{}
	if template != nil {
		for _, container := range template.Spec.Containers {
			images[container.Name] = container.Image
		}
	}
	return images
}

// outputsOf returns the outputs of the steps of the canary so far, by id.
func outputsOf(work Work) map[string]any {
	all := map[string]any{work.ID: map[string]any{"outputs": work.Outputs}}
	for _, other := range work.Rollout.Status.Canary.StepPluginStatuses {
		s, err := readStatus(other.Status)
		if err == nil && s != nil && s.Index != work.Index {
			all[s.ID] = map[string]any{"outputs": s.Outputs}
		}
	}
	return all
}
