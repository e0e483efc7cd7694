package jobstep

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// Labels of a step's Job.
const (
	// RolloutLabel has the Rollout's name, cut to the 63 characters of a label.
	RolloutLabel = "rollouts.kedify.io/rollout"
	// RolloutUIDLabel has the Rollout's UID.
	RolloutUIDLabel = "rollouts.kedify.io/rollout-uid"
	// StepLabel has the step's id.
	StepLabel = "rollouts.kedify.io/step"
	// KeyLabel has the key of the attempt at the step.
	KeyLabel = "rollouts.kedify.io/step-key"
)

const (
	// nameLimit leaves room in the name of a pod, of 63 characters, for what the Job
	// controller adds: an index and a random suffix.
	nameLimit = 52
	// idLimit bounds the step's id in a name, keyDigits the key.
	idLimit   = 20
	keyDigits = 10
	// deadlineMargin is how much longer than the step a Job may run. At the step's timeout
	// the plugin shows the log and deletes the Job; the Job's deadline is for when the
	// controller does not call the step any more.
	deadlineMargin = time.Minute
)

// build returns the Job of an attempt at a step: the evaluated spec, which it changes,
// with the defaults, environment and metadata that every step's Job has.
func build(work steps.Work, spec *batchv1.JobSpec, old *corev1.PodTemplateSpec) *batchv1.Job {
	ro := work.Rollout
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
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ro.Namespace,
			Name:      nameOf(work),
			Labels: map[string]string{
				RolloutLabel:    labelOf(ro.Name),
				RolloutUIDLabel: string(ro.UID),
				StepLabel:       labelOf(work.ID),
				KeyLabel:        work.Key,
			},
			// blockOwnerDeletion would need a grant to update finalizers of Rollouts.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Rollout", Name: ro.Name, UID: ro.UID,
			}},
		},
		Spec: *spec,
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

var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// nameOf returns the name of the Job of an attempt at a step: the Rollout's name, the step's
// id and the beginning of the key.
func nameOf(work steps.Work) string {
	key := work.Key[:min(keyDigits, len(work.Key))]
	id := dnsLabel(work.ID, idLimit)
	rollout := dnsLabel(work.Rollout.Name, nameLimit-len(id)-len(key)-2)
	return strings.Join([]string{rollout, id, key}, "-")
}

// dnsLabel turns a text into a part of a DNS label.
func dnsLabel(text string, limit int) string {
	text = notInName.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(limit, len(text))], "-")
}

// labelOf turns a text into the value of a label.
func labelOf(text string) string {
	return strings.Trim(text[:min(validation.LabelValueMaxLength, len(text))], "-_.")
}

// isOf tells whether a Job belongs to an attempt at a step.
func isOf(job *batchv1.Job, work steps.Work) bool {
	return job.Labels[KeyLabel] == work.Key && isOwnedBy(job, work.Rollout)
}

func isOwnedBy(job *batchv1.Job, ro *v1alpha1.Rollout) bool {
	return slices.ContainsFunc(job.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == ro.UID })
}
