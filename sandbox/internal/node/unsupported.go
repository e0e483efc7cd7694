package node

import (
	corev1 "k8s.io/api/core/v1"
)

// unsupported names what a pod asks for that this node cannot do. Leaving it out
// silently would make the pod something else than it says it is.
func unsupported(pod *corev1.Pod) []string {
	var what []string
	add := func(is bool, name string) {
		if is {
			what = append(what, name)
		}
	}
	spec := pod.Spec
	add(spec.HostNetwork, "hostNetwork")
	add(spec.OS != nil && spec.OS.Name != corev1.Linux, "an os other than linux")
	for _, v := range spec.Volumes {
		add(v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && v.DownwardAPI == nil,
			"the kind of volume "+v.Name+" (only emptyDir, configMap, secret, projected, downwardAPI)")
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range list {
			add(c.Lifecycle != nil && c.Lifecycle.PostStart != nil, "the postStart hook of container "+c.Name)
			add(len(c.VolumeDevices) > 0, "the volumeDevices of container "+c.Name)
		}
	}
	return what
}
