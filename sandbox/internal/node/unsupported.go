package node

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// unsupported names the features that a pod asks for and this node does not have.
// Ignoring them silently would run a pod that differs from its spec. fields_test.go
// lists every field of a pod, and why a field is neither implemented nor named
// here.
func unsupported(pod *corev1.Pod) []string {
	var what []string
	add := func(is bool, format string, args ...any) {
		if is {
			what = append(what, fmt.Sprintf(format, args...))
		}
	}
	spec := &pod.Spec
	add(spec.HostNetwork, "hostNetwork")
	add(spec.HostPID, "hostPID")
	add(spec.HostIPC, "hostIPC")
	add(spec.HostUsers != nil && !*spec.HostUsers, "hostUsers: false")
	add(spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN, "setHostnameAsFQDN")
	add(spec.HostnameOverride != nil, "hostnameOverride")
	add(spec.RuntimeClassName != nil, "runtimeClassName")
	add(len(spec.ResourceClaims) > 0, "resourceClaims")
	add(spec.OS != nil && spec.OS.Name != corev1.Linux, "an os other than linux")
	add(spec.SecurityContext != nil && len(spec.SecurityContext.Sysctls) > 0, "securityContext.sysctls")
	for _, v := range spec.Volumes {
		add(v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && v.DownwardAPI == nil,
			"the kind of volume %s (only emptyDir, configMap, secret, projected, downwardAPI)", v.Name)
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				add(s.ClusterTrustBundle != nil, "the clusterTrustBundle of volume %s", v.Name)
				add(s.PodCertificate != nil, "the podCertificate of volume %s", v.Name)
			}
		}
	}
	for _, c := range spec.InitContainers {
		add(c.RestartPolicy != nil && !isSidecar(&c), "the restartPolicy of init container %s (only Always)", c.Name)
		what = append(what, unsupportedOfContainer(&c)...)
	}
	for _, c := range spec.Containers {
		add(c.RestartPolicy != nil, "the restartPolicy of container %s", c.Name)
		what = append(what, unsupportedOfContainer(&c)...)
	}
	return what
}

func unsupportedOfContainer(c *corev1.Container) []string {
	var what []string
	add := func(is bool, field string) {
		if is {
			what = append(what, field+" of container "+c.Name)
		}
	}
	add(len(c.RestartPolicyRules) > 0, "the restartPolicyRules")
	add(c.Lifecycle != nil && c.Lifecycle.PostStart != nil, "the postStart hook")
	add(c.Lifecycle != nil && c.Lifecycle.StopSignal != nil, "the stopSignal")
	add(c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.TCPSocket != nil, "the tcpSocket of the preStop hook")
	add(len(c.VolumeDevices) > 0, "the volumeDevices")
	add(c.Stdin || c.StdinOnce, "the stdin")
	add(c.TTY, "the tty")
	for _, port := range c.Ports {
		add(port.HostPort != 0 && port.Protocol == corev1.ProtocolSCTP, fmt.Sprintf("the hostPort %d, which is SCTP,", port.HostPort))
	}
	for _, m := range c.VolumeMounts {
		add(m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional, "the bidirectional mountPropagation of volume "+m.Name)
		add(m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled, "the recursiveReadOnly of volume "+m.Name)
	}
	for _, v := range c.Env {
		add(v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil, "the fileKeyRef of variable "+v.Name)
	}
	add(len(c.Resources.Claims) > 0, "the resources.claims")
	if s := c.SecurityContext; s != nil {
		add(s.Privileged != nil && *s.Privileged, "the securityContext.privileged")
		add(s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount, "the securityContext.procMount")
		if s.Capabilities != nil {
			var cannot []string
			for _, name := range s.Capabilities.Add {
				if _, ok := defaultCapabilities[capabilityName(name)]; !ok {
					cannot = append(cannot, string(name))
				}
			}
			slices.Sort(cannot)
			add(len(cannot) > 0, "the capabilities "+strings.Join(cannot, ", "))
		}
	}
	return what
}
