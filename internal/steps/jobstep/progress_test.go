package jobstep

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

// What a Job, its pods and Events mean for a step.
func TestResult(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	condition := func(of batchv1.JobConditionType, reason, message string) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
	}
	pod := func(name string, changes ...func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		for _, change := range changes {
			change(&pod)
		}
		return pod
	}
	since := func(ago time.Duration, problem string) state { return state{problem, now.Add(-ago)} }
	unschedulable := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	}
	creating := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	}
	pulling := func(pod *corev1.Pod) {
		theContainer(corev1.PodPending, waits("ContainerCreating", ""))(pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
	}
	long := time.Hour
	for name, tt := range map[string]struct {
		status  batchv1.JobStatus
		deleted bool
		pods    []corev1.Pod
		refused string
		mount   string
		state   state
		phase   steps.Phase
		waiting string
		want    string
		outcome steps.Outcome
		log     string
	}{
		"nothing yet":      {phase: steps.Running, waiting: "start", want: "waits for its pod"},
		"suspended":        {status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, "", "")}, phase: steps.Running, waiting: "suspended", want: "is suspended"},
		"not scheduled":    {pods: []corev1.Pod{pod("p", unschedulable)}, state: since(long, ""), phase: steps.Running, waiting: "schedule", want: "p is not scheduled (Unschedulable): 0/3 nodes"},
		"starting":         {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("PodInitializing", "")))}, phase: steps.Running, waiting: "start", want: "waits for pod p to start"},
		"running":          {status: batchv1.JobStatus{Active: 2, Succeeded: 1, Failed: 1}, phase: steps.Running, waiting: "running", want: "is running (pods: 2 active, 1 succeeded, 1 failed)"},
		"a bad image name": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("InvalidImageName", "no")))}, phase: steps.Failed, waiting: "container smoke", want: "cannot start: container smoke of pod p does not start: InvalidImageName: no", outcome: steps.Done},
		"no image yet": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("ErrImagePull", "no")))}, state: since(59*time.Second, "container smoke"), phase: steps.Running,
			waiting: "container smoke", want: "ErrImagePull"},
		"no image for long": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("ImagePullBackOff", "no")))}, state: since(time.Minute, "container smoke"), phase: steps.Failed,
			waiting: "container smoke", want: "has not started within 1m0s", outcome: steps.Done},
		"no image after another problem": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("ImagePullBackOff", "no")))}, state: since(long, "pod"), phase: steps.Running,
			waiting: "container smoke", want: "ImagePullBackOff"},
		"no image of an initContainer": {pods: []corev1.Pod{pod("p", func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: waits("ImagePullBackOff", "no")}}
		})}, state: since(long, "container init"), phase: steps.Failed, waiting: "container init", want: "container init", outcome: steps.Done},
		"no Secret": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("CreateContainerConfigError", `secret "x" not found`)))}, state: since(long, "container smoke"), phase: steps.Failed,
			waiting: "container smoke", want: `secret "x" not found`, outcome: steps.Done},
		"no image of a pod that is deleted": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodPending, waits("ImagePullBackOff", "no")), func(pod *corev1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{Time: now}
		})}, state: since(long, "container smoke"), phase: steps.Running, waiting: "start"},
		"a quota":                        {refused: "is forbidden: exceeded quota", state: since(long, "pod"), phase: steps.Running, waiting: "pod", want: "exceeded quota"},
		"a quota that wants limits":      {refused: "is forbidden: failed quota: must specify limits.cpu", state: since(time.Minute, "pod"), phase: steps.Failed, waiting: "pod", want: "failed quota", outcome: steps.Done},
		"Pod Security, first":            {refused: `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, phase: steps.Running, waiting: "pod", want: "violates PodSecurity"},
		"Pod Security":                   {refused: `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, state: since(long, "pod"), phase: steps.Failed, waiting: "pod", want: "violates PodSecurity", outcome: steps.Done},
		"a webhook that says no":         {refused: `admission webhook "w" denied the request: no`, state: since(long, "pod"), phase: steps.Failed, waiting: "pod", want: "denied", outcome: steps.Done},
		"a webhook that does not answer": {refused: `Internal error occurred: failed calling webhook "w"`, state: since(long, "pod"), phase: steps.Running, waiting: "pod", want: "failed calling webhook"},
		"a quota of earlier":             {pods: []corev1.Pod{pod("p")}, refused: "is forbidden: exceeded quota", state: since(long, "pod"), phase: steps.Running, waiting: "start"},
		"a Secret of a volume, first":    {pods: []corev1.Pod{pod("p", creating)}, mount: `volume "v": secret "x" not found`, phase: steps.Running, waiting: "volume", want: `secret "x" not found`},
		"a Secret of a volume":           {pods: []corev1.Pod{pod("p", creating)}, mount: `volume "v": secret "x" not found`, state: since(time.Minute, "volume"), phase: steps.Failed, waiting: "volume", want: `the volumes of pod p are not mounted: volume "v": secret "x" not found`, outcome: steps.Done},
		"a disk":                         {pods: []corev1.Pod{pod("p", creating)}, mount: "timed out waiting for the condition", state: since(long, "volume"), phase: steps.Running, waiting: "volume", want: "timed out waiting"},
		"a volume of earlier":            {pods: []corev1.Pod{pod("p", pulling)}, mount: `secret "x" not found`, state: since(long, "volume"), phase: steps.Running, waiting: "start"},
		"starts again and again": {pods: []corev1.Pod{pod("p", theContainer(corev1.PodRunning, waits("CrashLoopBackOff", "back-off")), func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].RestartCount, pod.Status.ContainerStatuses[0].LastTerminationState = 3, ended(7, "")
		})}, state: since(long, ""), phase: steps.Running, waiting: "restart", want: "has ended 3 times, last with exit code 7"},
		"being ended": {status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailureTarget, "DeadlineExceeded", "was active too long.")}, phase: steps.Running, waiting: "end", want: "(DeadlineExceeded: was active too long)"},
		"deadline":    {status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, "DeadlineExceeded", "")}, phase: steps.Failed, want: "has failed (DeadlineExceeded); its pods are gone, and their logs with them"},
		"failed, of two containers": {status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, "", "")}, pods: []corev1.Pod{pod("p", func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodFailed
			later := ended(137, "")
			later.Terminated.Reason, later.Terminated.FinishedAt = "OOMKilled", metav1.Unix(2000, 0)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "b", State: later}, {Name: "a", State: ended(1, "")}, {Name: "c", State: ended(0, "")}}
		})}, phase: steps.Failed, want: "container b of pod p ended with exit code 137 (OOMKilled)", log: "p b"},
		"evicted": {status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, "", "")}, pods: []corev1.Pod{pod("p", func(pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory"}
		})}, phase: steps.Failed, want: "pod p has failed (Evicted: The node was low on memory)"},
		"being deleted":        {deleted: true, phase: steps.Failed, want: "is being deleted, before it has ended"},
		"completed, expiring":  {status: batchv1.JobStatus{Conditions: condition(batchv1.JobComplete, "", "")}, deleted: true, phase: steps.Successful, want: "has completed"},
		"a condition of false": {status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}}}, phase: steps.Running, waiting: "start"},
		"a log to show": {status: batchv1.JobStatus{Active: 1}, pods: []corev1.Pod{pod("p", theContainer(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}))},
			phase: steps.Running, waiting: "running", log: "p smoke"},
	} {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{Status: tt.status}
			if tt.deleted {
				job.DeletionTimestamp = &metav1.Time{Time: now}
			}
			got := observation{job: job, pods: tt.pods, createProblem: tt.refused, mountProblem: tt.mount, state: tt.state, now: now}.result()
			log := ""
			if got.log != nil {
				log = got.log.pod + " " + got.log.name
			}
			if got.Phase != tt.phase || got.Waiting != tt.waiting || !strings.Contains(got.Message, tt.want) || got.Outcome != tt.outcome || log != tt.log {
				t.Errorf("%+v, log %q", got, log)
			}
		})
	}
}

// Outputs are the strings and other values of a JSON object; any other message gives no
// outputs.
func TestOutputs(t *testing.T) {
	for message, want := range map[string]int{
		`{"a": "1", "b": {"c": [1]}, "d": null}`: 3, "": 0, "done": 0, `"text"`: 0, `[1]`: 0, `{"a": `: 0, "null": 0,
	} {
		if got := readOutputs(message); len(got) != want {
			t.Errorf("%s: %v, want %d", message, got, want)
		}
	}
	if got := readOutputs(`{"a": "1", "b": {"c": [1]}}`); got["a"] != "1" || got["b"] != `{"c": [1]}` {
		t.Errorf("%v", got)
	}
	late := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"a": "late"}`, FinishedAt: metav1.Unix(2000, 0)}}
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
		{State: late}, {State: ended(0, `{"a": "early", "b": "too"}`)},
	}}}
	failed := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{State: ended(0, `{"c": "of a pod that failed"}`)}}}}
	if got := outputsOf([]corev1.Pod{failed, pod}); got["a"] != "late" || got["b"] != "too" || len(got) != 2 {
		t.Errorf("%v", got)
	}
}
