package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is the state of a sandbox, as its daemon reports it.
type Status struct {
	Name string `json:"name"`
	// Dir is the state directory.
	Dir string `json:"dir"`
	// Kubernetes is its release; Addons are what it was brought up with.
	Kubernetes string        `json:"kubernetes"`
	Addons     []AddonStatus `json:"addons"`
	// Phase is Starting, Up or Failed; Error says why it failed.
	Phase string    `json:"phase"`
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since"`

	Components []ComponentStatus `json:"components"`
	Node       string            `json:"node"`
	Pods       []PodStatus       `json:"pods,omitempty"`
	// PodsError says why pods and node are not known, such as a stopped API
	// server.
	PodsError string `json:"podsError,omitempty"`
}

// AddonStatus names an add-on, and the release that it was built from if it is
// another project's.
type AddonStatus struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// Phases of a sandbox.
const (
	PhaseStarting = "Starting"
	PhaseUp       = "Up"
	PhaseFailed   = "Failed"
)

// States of a component.
const (
	StateRunning = "Running"
	StateStopped = "Stopped" // by request, or not started yet
	StateDied    = "Died"    // and about to be started again
)

// ComponentStatus describes one component of the control plane, or the node.
type ComponentStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// PID is its process as seen inside the sandbox; 0 unless it runs.
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Deaths counts how often it ended without being stopped. LastDeath says how it
	// ended the last time, and LastLog is the end of its log then.
	Deaths    int    `json:"deaths,omitempty"`
	LastDeath string `json:"lastDeath,omitempty"`
	LastLog   string `json:"lastLog,omitempty"`
}

// PodStatus describes one pod in a line.
type PodStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state"`
	IP        string `json:"ip,omitempty"`
	Ready     bool   `json:"ready"`
}

func (d *daemon) status(ctx context.Context) *Status {
	s := &Status{
		Name: d.settings.Name, Dir: d.layout.Dir, Kubernetes: d.settings.Kubernetes, Addons: []AddonStatus{},
		Phase: PhaseStarting, Since: d.started,
	}
	for _, a := range d.settings.Addons {
		s.Addons = append(s.Addons, AddonStatus{a.Name, a.Version})
	}
	if last, over := d.events.outcome(); over {
		s.Phase, s.Error = PhaseUp, last.Error
		if last.Error != "" {
			s.Phase = PhaseFailed
		}
	}
	for _, name := range Components() {
		s.Components = append(s.Components, d.supervisor.components[name].status())
	}

	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := nodeReady(ctx, d.client); err != nil {
		s.Node = err.Error()
	} else {
		s.Node = "Ready"
	}
	pods, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		s.PodsError = err.Error()
		return s
	}
	for _, pod := range pods.Items {
		state, _ := podState(&pod)
		s.Pods = append(s.Pods, PodStatus{
			Namespace: pod.Namespace, Name: pod.Name, State: state, IP: pod.Status.PodIP, Ready: PodReady(&pod),
		})
	}
	return s
}

func (c *supervised) status() ComponentStatus {
	now := c.snapshot()
	s := ComponentStatus{Name: c.name, PID: now.pid, Deaths: now.deaths, LastDeath: now.lastWord, LastLog: now.lastLog}
	switch {
	case now.pid != 0:
		s.State, s.Since = StateRunning, now.since
	case now.wanted:
		s.State = StateDied
	default:
		s.State = StateStopped
	}
	return s
}

// podState says in a word or two what kubectl's column STATUS would, and why,
// where that is known.
func podState(pod *corev1.Pod) (state, why string) {
	if pod.DeletionTimestamp != nil {
		return "Terminating", ""
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch state := container.State; {
		case state.Waiting != nil && state.Waiting.Reason != "":
			return state.Waiting.Reason, state.Waiting.Message
		case state.Terminated != nil && state.Terminated.ExitCode != 0:
			return state.Terminated.Reason, fmt.Sprintf("exit code %d", state.Terminated.ExitCode)
		}
	}
	return string(pod.Status.Phase), pod.Status.Message
}

// PodReady says whether a pod has the condition Ready.
func PodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
