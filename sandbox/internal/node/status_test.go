package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// made is a container's status in one of a few usual states.
func made(name, state string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name, Started: ptr.To(false)}
	ended := func(code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code}
	}
	switch state {
	case "waiting":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case "back-off":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		s.LastTerminationState.Terminated = ended(1)
	case "running":
		s.State.Running, s.Started = &corev1.ContainerStateRunning{}, ptr.To(true)
	case "ready":
		s.State.Running, s.Started, s.Ready = &corev1.ContainerStateRunning{}, ptr.To(true), true
	case "done":
		s.State.Terminated = ended(0)
	case "failed":
		s.State.Terminated = ended(3)
	}
	return s
}

func TestPhaseAndConditions(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	tests := map[string]struct {
		policy  corev1.RestartPolicy
		init    []string
		sidecar bool // the first init container is a sidecar
		main    []string
		gate    corev1.ConditionStatus // of the gate "example/ok"; empty: no gate
		ended   bool
		failed  string
		phase   corev1.PodPhase
		// true conditions among Initialized, ContainersReady, Ready
		conditions string
	}{
		"just there":                     {always, nil, false, []string{"waiting"}, "", false, "", corev1.PodPending, "Initialized "},
		"one of two runs":                {always, nil, false, []string{"ready", "waiting"}, "", false, "", corev1.PodPending, "Initialized "},
		"runs, not ready":                {always, nil, false, []string{"running"}, "", false, "", corev1.PodRunning, "Initialized "},
		"ready":                          {always, nil, false, []string{"ready", "ready"}, "", false, "", corev1.PodRunning, "Initialized ContainersReady Ready "},
		"gate open":                      {always, nil, false, []string{"ready"}, corev1.ConditionTrue, false, "", corev1.PodRunning, "Initialized ContainersReady Ready "},
		"gate closed":                    {always, nil, false, []string{"ready"}, corev1.ConditionFalse, false, "", corev1.PodRunning, "Initialized ContainersReady "},
		"gate nobody decided about":      {always, nil, false, []string{"ready"}, "missing", false, "", corev1.PodRunning, "Initialized ContainersReady "},
		"crash loop":                     {always, nil, false, []string{"back-off"}, "", false, "", corev1.PodRunning, "Initialized "},
		"ended, about to start again":    {always, nil, false, []string{"done"}, "", false, "", corev1.PodRunning, "Initialized "},
		"job done":                       {never, nil, false, []string{"done", "done"}, "", false, "", corev1.PodSucceeded, "Initialized "},
		"job failed":                     {never, nil, false, []string{"done", "failed"}, "", false, "", corev1.PodFailed, "Initialized "},
		"job half done":                  {never, nil, false, []string{"done", "running"}, "", false, "", corev1.PodRunning, "Initialized "},
		"to be tried again":              {onFailure, nil, false, []string{"failed"}, "", false, "", corev1.PodRunning, "Initialized "},
		"done on failure":                {onFailure, nil, false, []string{"done"}, "", false, "", corev1.PodSucceeded, "Initialized "},
		"initializing":                   {always, []string{"done", "running"}, false, []string{"waiting"}, "", false, "", corev1.PodPending, ""},
		"init failed, to be tried again": {always, []string{"failed"}, false, []string{"waiting"}, "", false, "", corev1.PodPending, ""},
		"init failed for good":           {never, []string{"failed"}, false, []string{"waiting"}, "", false, "", corev1.PodFailed, ""},
		"initialized":                    {always, []string{"done"}, false, []string{"ready"}, "", false, "", corev1.PodRunning, "Initialized ContainersReady Ready "},
		"sidecar does not run yet":       {always, []string{"waiting"}, true, []string{"waiting"}, "", false, "", corev1.PodPending, ""},
		"sidecar runs, not ready":        {always, []string{"running"}, true, []string{"ready"}, "", false, "", corev1.PodRunning, "Initialized "},
		"sidecar ready":                  {always, []string{"ready"}, true, []string{"ready"}, "", false, "", corev1.PodRunning, "Initialized ContainersReady Ready "},
		"deleted while it ran":           {always, nil, false, []string{"done"}, "", true, "", corev1.PodSucceeded, "Initialized "},
		"deleted, killed":                {always, nil, false, []string{"failed"}, "", true, "", corev1.PodFailed, "Initialized "},
		"deleted before it started":      {always, nil, false, []string{"waiting"}, "", true, "", corev1.PodSucceeded, "Initialized "},
		"failed by the node":             {always, nil, false, []string{"ready"}, "", false, "DeadlineExceeded", corev1.PodFailed, "Initialized "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: corev1.PodSpec{RestartPolicy: tt.policy}}
			view := podView{pod: pod, podIP: "10.244.1.1", mounted: true, hostIP: "10.244.0.1", startTime: time.Unix(100, 0), now: time.Unix(200, 0), ended: tt.ended, failedReason: tt.failed}
			for i, state := range tt.init {
				spec := corev1.Container{Name: state}
				if tt.sidecar && i == 0 {
					spec.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				}
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
				view.init = append(view.init, made(state, state))
			}
			for _, state := range tt.main {
				view.main = append(view.main, made(state, state))
			}
			if tt.gate != "" {
				pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example/ok"}}
				if tt.gate != "missing" {
					pod.Status.Conditions = []corev1.PodCondition{{Type: "example/ok", Status: tt.gate}}
				}
			}
			status := podStatus(view)
			if status.Phase != tt.phase {
				t.Errorf("phase %s, want %s", status.Phase, tt.phase)
			}
			got, gates := "", 0
			for _, c := range status.Conditions {
				if c.Type == "example/ok" {
					gates++
					continue
				}
				if c.ObservedGeneration != 7 {
					t.Errorf("condition %s observed generation %d", c.Type, c.ObservedGeneration)
				}
				if c.Status != corev1.ConditionTrue && c.Type != corev1.PodReadyToStartContainers && c.Reason == "" {
					t.Errorf("condition %s is false without a reason", c.Type)
				}
			}
			for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
				for _, c := range status.Conditions {
					if c.Type == kind && c.Status == corev1.ConditionTrue {
						got += string(kind) + " "
					}
				}
			}
			if got != tt.conditions {
				t.Errorf("true conditions %q, want %q", got, tt.conditions)
			}
			if want := map[bool]int{true: 1}[tt.gate != "" && tt.gate != "missing"]; gates != want {
				t.Errorf("the gate's own condition is there %d times, want %d", gates, want)
			}
			if status.ObservedGeneration != 7 || status.PodIP != "10.244.1.1" || !status.StartTime.Time.Equal(time.Unix(100, 0)) {
				t.Errorf("status %+v", status)
			}
		})
	}
}

func TestConditionsKeepTheirTransition(t *testing.T) {
	then := metav1.NewTime(time.Unix(50, 0))
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: then},
		{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, LastTransitionTime: then},
	}}}
	for _, c := range podStatus(podView{pod: pod, now: time.Unix(200, 0), main: []corev1.ContainerStatus{made("a", "ready")}}).Conditions {
		switch c.Type {
		case corev1.PodReady:
			if !c.LastTransitionTime.Equal(&then) {
				t.Errorf("Ready did not change, but its transition is %v", c.LastTransitionTime)
			}
		case corev1.ContainersReady:
			if c.LastTransitionTime.Unix() != 200 {
				t.Errorf("ContainersReady changed, but its transition is %v", c.LastTransitionTime)
			}
		}
	}
}

func TestRestarts(t *testing.T) {
	for _, tt := range []struct {
		policy corev1.RestartPolicy
		code   int32
		want   bool
	}{
		{corev1.RestartPolicyAlways, 0, true}, {corev1.RestartPolicyAlways, 1, true},
		{corev1.RestartPolicyOnFailure, 0, false}, {corev1.RestartPolicyOnFailure, 1, true},
		{corev1.RestartPolicyNever, 0, false}, {corev1.RestartPolicyNever, 1, false},
	} {
		if got := restarts(tt.policy, tt.code); got != tt.want {
			t.Errorf("%s with exit code %d: %v, want %v", tt.policy, tt.code, got, tt.want)
		}
	}
}

func TestStatusPatch(t *testing.T) {
	then := metav1.NewTime(time.Unix(50, 0))
	later := metav1.NewTime(time.Unix(90, 0))
	server := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u-1"}, Status: corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: "example/ok", Status: corev1.ConditionTrue, LastTransitionTime: then},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: then},
		},
	}}
	wanted := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		// From an older version of the pod; this node must not write it.
		{Type: "example/ok", Status: corev1.ConditionFalse, LastTransitionTime: later},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: later},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: later},
	}}
	patch, changed, err := statusPatch(server, wanted)
	if err != nil || !changed {
		t.Fatalf("statusPatch = %s, %v, %v", patch, changed, err)
	}
	var got struct {
		Metadata metav1.ObjectMeta
		Status   corev1.PodStatus
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata.UID != "u-1" || got.Status.Phase != corev1.PodRunning || got.Status.QOSClass != "" {
		t.Errorf("patch %s", patch)
	}
	var types []corev1.PodConditionType
	for _, c := range got.Status.Conditions {
		types = append(types, c.Type)
	}
	if diff := cmp.Diff([]corev1.PodConditionType{corev1.PodReady}, types); diff != "" {
		t.Errorf("conditions in the patch (-want +got):\n%s", diff)
	}

	server.Status.Phase = corev1.PodRunning
	server.Status.Conditions = append(server.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: then})
	if patch, changed, err := statusPatch(server, wanted); err != nil || changed {
		t.Errorf("an unchanged status gives %s, %v, %v; want no patch", patch, changed, err)
	}
}

func TestUnsupported(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		HostNetwork: true,
		Volumes:     []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}, {Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers:  []corev1.Container{{Name: "a", Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}}},
	}}
	want := []string{"hostNetwork", "the kind of volume host (only emptyDir, configMap, secret, projected, downwardAPI)", "the postStart hook of container a"}
	if diff := cmp.Diff(want, unsupported(pod)); diff != "" {
		t.Errorf("unsupported (-want +got):\n%s", diff)
	}
}
