package node

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

const (
	leaseSeconds  = 40
	leaseInterval = 10 * time.Second
	// statusInterval is how often the node's conditions are written without a
	// change; the lease is the heartbeat.
	statusInterval = 5 * time.Minute
	// lookInterval is how often the Node object is read: after an outage of the API
	// server the control plane may consider the node gone, and schedules no pods to
	// it until the node reports otherwise.
	lookInterval  = 5 * time.Second
	registerRetry = time.Second
)

// register makes the Node object ready and keeps it and its lease alive until
// ctx ends.
func (n *node) register(ctx context.Context) {
	go lease.NewController(clock.RealClock{}, n.client, n.cfg.Name, leaseSeconds, func() {
		n.cfg.Log.Warn("the node's lease cannot be renewed; trying again")
	}, leaseInterval, n.cfg.Name, corev1.NamespaceNodeLease, nil).Run(ctx)
	since := metav1.Now()
	var written time.Time
	for {
		wait := lookInterval
		if time.Since(written) >= statusInterval || !n.heldReady(ctx) {
			if err := n.writeNode(ctx, since); err == nil {
				written = time.Now()
			} else if ctx.Err() == nil {
				n.cfg.Log.Warn("cannot register the node; trying again", "err", err)
				wait = registerRetry
			}
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// heldReady reports whether the Node object says that the node is ready. It returns
// false, too, if the object cannot be read.
func (n *node) heldReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (n *node) writeNode(ctx context.Context, since metav1.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	nodes := n.client.CoreV1().Nodes()
	want := n.object(since)
	if _, err := nodes.Create(ctx, want, metav1.CreateOptions{}); err == nil {
		// Creation keeps the status, too.
		return nil
	} else if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", n.cfg.Name, err)
	}
	labels, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": want.Labels}})
	if err != nil {
		return fmt.Errorf("encode node %s: %w", n.cfg.Name, err)
	}
	if _, err := nodes.Patch(ctx, n.cfg.Name, types.StrategicMergePatchType, labels, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label node %s: %w", n.cfg.Name, err)
	}
	status, err := json.Marshal(map[string]any{"status": want.Status})
	if err != nil {
		return fmt.Errorf("encode node %s: %w", n.cfg.Name, err)
	}
	if _, err := nodes.PatchStatus(ctx, n.cfg.Name, status); err != nil {
		return fmt.Errorf("status of node %s: %w", n.cfg.Name, err)
	}
	return nil
}

// object is the Node as it should be. since is when it became ready.
func (n *node) object(since metav1.Time) *corev1.Node {
	name := n.cfg.Name
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: since,
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
				"beta.kubernetes.io/os": runtime.GOOS, "beta.kubernetes.io/arch": runtime.GOARCH,
			},
		},
		Spec: corev1.NodeSpec{ProviderID: "sandbox://" + name},
		Status: corev1.NodeStatus{
			Capacity: capacity(), Allocatable: capacity(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.cfg.NodeIP.String()},
				{Type: corev1.NodeHostName, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: APIPort}},
			NodeInfo:        systemInfo(n.cfg.Kubernetes),
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "the sandbox does not limit memory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "the sandbox does not limit disk space"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "the sandbox does not limit processes"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "the sandbox's node runs pods"),
			},
		},
	}
}

// capacity is generous: nothing here limits a pod, and a pod's requests must not
// keep it from being scheduled on a small machine.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("500"),
	}
}

func systemInfo(kubernetes string) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, OSImage: "rollouts-sandbox",
		ContainerRuntimeVersion: "sandbox://1", KubeletVersion: kubernetes,
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		info.KernelVersion = unix.ByteSliceToString(name.Release[:])
	}
	return info
}
