package jobstep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/stepobject"
)

// deadlineMargin is how much longer than the step a Job may run. At the step's timeout
// the plugin shows the log and deletes the Job; the Job's deadline is for when the
// controller does not call the step any more.
const deadlineMargin = time.Minute

// build returns a Job of an attempt at a step, which has as long as work.Remaining: the evaluated
// spec, which it changes, with the defaults, environment and metadata that every step's Job has.
func build(work steps.Work, name string, spec *batchv1.JobSpec, old *corev1.PodTemplateSpec) *batchv1.Job {
	spec.TTLSecondsAfterFinished = new(max(*cmp.Or(spec.TTLSecondsAfterFinished, new(int32(defaultTTL))), minTTL))
	spec.BackoffLimit = cmp.Or(spec.BackoffLimit, new(int32(0)))
	longest := int64(math.Ceil((work.Remaining + deadlineMargin).Seconds()))
	if spec.ActiveDeadlineSeconds == nil || *spec.ActiveDeadlineSeconds > longest {
		spec.ActiveDeadlineSeconds = &longest
	}
	pod := &spec.Template.Spec
	pod.RestartPolicy = cmp.Or(pod.RestartPolicy, corev1.RestartPolicyNever)
	env := environment(work, old)
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].Env = withDefaults(containers[i].Env, env)
		}
	}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: stepobject.Metadata(work, name),
		Spec:       *spec,
	}
}

// environment returns the variables that every container of a step's Job gets.
func environment(work steps.Work, old *corev1.PodTemplateSpec) []corev1.EnvVar {
	scope := steps.Scope(work, old)
	in := func(object, key string) string { return fmt.Sprint(scope[object].(map[string]any)[key]) }
	return []corev1.EnvVar{
		{Name: "ROLLOUT_NAME", Value: work.Rollout.Name},
		{Name: "ROLLOUT_NAMESPACE", Value: work.Rollout.Namespace},
		{Name: "ROLLOUT_NEW_IMAGE", Value: firstImage(&work.Rollout.Spec.Template)},
		{Name: "ROLLOUT_OLD_IMAGE", Value: firstImage(old)},
		{Name: "ROLLOUT_NEW_HASH", Value: in("hash", "new")},
		{Name: "ROLLOUT_OLD_HASH", Value: in("hash", "old")},
		{Name: "ROLLOUT_STABLE_SERVICE", Value: in("services", "stable")},
		{Name: "ROLLOUT_CANARY_SERVICE", Value: in("services", "canary")},
		{Name: "ROLLOUT_WEIGHT", Value: fmt.Sprint(scope["weight"])},
		{Name: "ROLLOUT_REVISION", Value: fmt.Sprint(scope["revision"])},
		{Name: "ROLLOUT_STEP_ID", Value: work.ID},
		{Name: "ROLLOUT_STEP_KEY", Value: work.Key},
	}
}

func firstImage(template *corev1.PodTemplateSpec) string {
	if template == nil || len(template.Spec.Containers) == 0 {
		return ""
	}
	return template.Spec.Containers[0].Image
}

// withDefaults adds variables that a container does not set. They come first, so that the
// container's own can refer to them.
func withDefaults(own, defaults []corev1.EnvVar) []corev1.EnvVar {
	env := slices.DeleteFunc(slices.Clone(defaults), func(d corev1.EnvVar) bool {
		return slices.ContainsFunc(own, func(o corev1.EnvVar) bool { return o.Name == d.Name })
	})
	return append(env, own...)
}
