package node

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	// The node acts on done fields; the fields within them are listed, too.
	done = "done"
	// refused fields keep the pod from starting, with an Event: see refusals.
	refused = "refused"
)

// Reasons to ignore a field. docs/contributing/sandbox.md lists the ignored fields that a user
// may miss.
const (
	schedulers  = "for the scheduler"
	admissions  = "for admission, which has put into the pod what follows from it"
	noImages    = "no images are pulled"
	noUsers     = "not enforced: all processes are those of the sandbox's user, and files are that user's"
	noLimits    = "not enforced: the sandbox limits no resources"
	noProfiles  = "not enforced: the machine's own security modules hold"
	infoOnly    = "says something to people and to other programs"
	windowsOnly = "for Windows, which the API server refuses on Linux"
)

// podFields is every field of a pod's spec, and what the node does with it.
var podFields = map[string]string{
	"PodSpec.Volumes": done, "PodSpec.InitContainers": done, "PodSpec.Containers": done, "PodSpec.RestartPolicy": done,
	"PodSpec.TerminationGracePeriodSeconds": done, "PodSpec.ActiveDeadlineSeconds": done, "PodSpec.DNSPolicy": done,
	"PodSpec.ServiceAccountName": done, "PodSpec.NodeName": done, "PodSpec.SecurityContext": done, "PodSpec.Hostname": done,
	"PodSpec.Subdomain": done, "PodSpec.HostAliases": done, "PodSpec.DNSConfig": done, "PodSpec.ReadinessGates": done,
	"PodSpec.EnableServiceLinks": done, "PodSpec.OS": done,
	"PodSpec.EphemeralContainers":          "there are none when a pod starts; one that comes later is an Event",
	"PodSpec.ShareProcessNamespace":        "containers see each other's processes in any case",
	"PodSpec.HostNetwork":                  refused,
	"PodSpec.HostPID":                      refused,
	"PodSpec.HostIPC":                      refused,
	"PodSpec.HostUsers":                    refused,
	"PodSpec.SetHostnameAsFQDN":            refused,
	"PodSpec.HostnameOverride":             refused,
	"PodSpec.RuntimeClassName":             refused,
	"PodSpec.ResourceClaims":               refused,
	"PodSpec.NodeSelector":                 schedulers,
	"PodSpec.Affinity":                     schedulers,
	"PodSpec.SchedulerName":                schedulers,
	"PodSpec.Tolerations":                  schedulers,
	"PodSpec.PreemptionPolicy":             schedulers,
	"PodSpec.TopologySpreadConstraints":    schedulers,
	"PodSpec.SchedulingGates":              schedulers,
	"PodSpec.Priority":                     schedulers,
	"PodSpec.PriorityClassName":            admissions,
	"PodSpec.Overhead":                     admissions,
	"PodSpec.DeprecatedServiceAccount":     admissions,
	"PodSpec.AutomountServiceAccountToken": admissions,
	"PodSpec.ImagePullSecrets":             noImages,
	"PodSpec.Resources":                    noLimits,

	"PodOS.Name": done, "PodReadinessGate.ConditionType": done, "HostAlias.IP": done, "HostAlias.Hostnames": done,
	"PodDNSConfig.Nameservers": done, "PodDNSConfig.Searches": done, "PodDNSConfig.Options": done,
	"PodDNSConfigOption.Name": done, "PodDNSConfigOption.Value": done,

	"PodSecurityContext.Sysctls":                  refused,
	"PodSecurityContext.WindowsOptions":           windowsOnly,
	"PodSecurityContext.RunAsUser":                noUsers,
	"PodSecurityContext.RunAsGroup":               noUsers,
	"PodSecurityContext.RunAsNonRoot":             noUsers,
	"PodSecurityContext.SupplementalGroups":       noUsers,
	"PodSecurityContext.SupplementalGroupsPolicy": noUsers,
	"PodSecurityContext.FSGroup":                  noUsers,
	"PodSecurityContext.FSGroupChangePolicy":      noUsers,
	"PodSecurityContext.SELinuxOptions":           noProfiles,
	"PodSecurityContext.SELinuxChangePolicy":      noProfiles,
	"PodSecurityContext.SeccompProfile":           noProfiles,
	"PodSecurityContext.AppArmorProfile":          noProfiles,

	"Container.Name": done, "Container.Image": done, "Container.Command": done, "Container.Args": done, "Container.WorkingDir": done,
	"Container.Ports": done, "Container.EnvFrom": done, "Container.Env": done, "Container.RestartPolicy": done, "Container.VolumeMounts": done,
	"Container.LivenessProbe": done, "Container.ReadinessProbe": done, "Container.StartupProbe": done, "Container.Lifecycle": done,
	"Container.TerminationMessagePath": done, "Container.TerminationMessagePolicy": done, "Container.SecurityContext": done,
	"Container.RestartPolicyRules": refused,
	"Container.VolumeDevices":      refused,
	"Container.Stdin":              refused,
	"Container.StdinOnce":          refused,
	"Container.TTY":                refused,
	"Container.Resources":          done, // the downward API shows them
	"Container.ResizePolicy":       noLimits,
	"Container.ImagePullPolicy":    noImages,

	"ResourceRequirements.Limits":   "not enforced, but shown by the downward API",
	"ResourceRequirements.Requests": "for the scheduler, and shown by the downward API",
	"ResourceRequirements.Claims":   refused,

	"ContainerPort.Name": done, "ContainerPort.HostPort": done, "ContainerPort.ContainerPort": done, "ContainerPort.Protocol": done, "ContainerPort.HostIP": done,

	"SecurityContext.Capabilities": done, "SecurityContext.ReadOnlyRootFilesystem": done, "SecurityContext.AllowPrivilegeEscalation": done,
	"Capabilities.Drop": done, "Capabilities.Add": done,
	"SecurityContext.Privileged":      refused,
	"SecurityContext.ProcMount":       refused,
	"SecurityContext.WindowsOptions":  windowsOnly,
	"SecurityContext.RunAsUser":       noUsers,
	"SecurityContext.RunAsGroup":      noUsers,
	"SecurityContext.RunAsNonRoot":    noUsers,
	"SecurityContext.SELinuxOptions":  noProfiles,
	"SecurityContext.SeccompProfile":  noProfiles,
	"SecurityContext.AppArmorProfile": noProfiles,

	"Lifecycle.PreStop": done, "LifecycleHandler.Exec": done, "LifecycleHandler.HTTPGet": done, "LifecycleHandler.Sleep": done, "SleepAction.Seconds": done,
	"Lifecycle.PostStart":        refused,
	"Lifecycle.StopSignal":       refused,
	"LifecycleHandler.TCPSocket": refused,

	"Probe.ProbeHandler": done, "Probe.InitialDelaySeconds": done, "Probe.TimeoutSeconds": done, "Probe.PeriodSeconds": done,
	"Probe.SuccessThreshold": done, "Probe.FailureThreshold": done, "Probe.TerminationGracePeriodSeconds": done,
	"ProbeHandler.Exec": done, "ProbeHandler.HTTPGet": done, "ProbeHandler.TCPSocket": done, "ProbeHandler.GRPC": done,
	"ExecAction.Command": done, "HTTPGetAction.Path": done, "HTTPGetAction.Port": done, "HTTPGetAction.Host": done, "HTTPGetAction.Scheme": done,
	"HTTPGetAction.HTTPHeaders": done, "HTTPHeader.Name": done, "HTTPHeader.Value": done, "TCPSocketAction.Port": done, "TCPSocketAction.Host": done,
	"GRPCAction.Port": done, "GRPCAction.Service": done,

	"EnvVar.Name": done, "EnvVar.Value": done, "EnvVar.ValueFrom": done, "EnvVarSource.FieldRef": done, "EnvVarSource.ResourceFieldRef": done,
	"EnvVarSource.ConfigMapKeyRef": done, "EnvVarSource.SecretKeyRef": done,
	"EnvVarSource.FileKeyRef":             refused,
	"ObjectFieldSelector.APIVersion":      "v1 is the only one",
	"ObjectFieldSelector.FieldPath":       done,
	"ResourceFieldSelector.ContainerName": done, "ResourceFieldSelector.Resource": done, "ResourceFieldSelector.Divisor": done,
	"ConfigMapKeySelector.LocalObjectReference": done, "ConfigMapKeySelector.Key": done, "ConfigMapKeySelector.Optional": done,
	"SecretKeySelector.LocalObjectReference": done, "SecretKeySelector.Key": done, "SecretKeySelector.Optional": done,
	"LocalObjectReference.Name": done, "EnvFromSource.Prefix": done, "EnvFromSource.ConfigMapRef": done, "EnvFromSource.SecretRef": done,
	"ConfigMapEnvSource.LocalObjectReference": done, "ConfigMapEnvSource.Optional": done,
	"SecretEnvSource.LocalObjectReference": done, "SecretEnvSource.Optional": done,

	"VolumeMount.Name": done, "VolumeMount.ReadOnly": done, "VolumeMount.MountPath": done, "VolumeMount.SubPath": done, "VolumeMount.SubPathExpr": done,
	"VolumeMount.RecursiveReadOnly": refused,
	"VolumeMount.MountPropagation":  refused,

	"Volume.Name": done, "Volume.VolumeSource": done, "VolumeSource.EmptyDir": done, "VolumeSource.Secret": done, "VolumeSource.DownwardAPI": done,
	"VolumeSource.ConfigMap": done, "VolumeSource.Projected": done,
	"VolumeSource.HostPath": refused, "VolumeSource.GCEPersistentDisk": refused, "VolumeSource.AWSElasticBlockStore": refused, "VolumeSource.GitRepo": refused,
	"VolumeSource.NFS": refused, "VolumeSource.ISCSI": refused, "VolumeSource.Glusterfs": refused, "VolumeSource.PersistentVolumeClaim": refused,
	"VolumeSource.RBD": refused, "VolumeSource.FlexVolume": refused, "VolumeSource.Cinder": refused, "VolumeSource.CephFS": refused,
	"VolumeSource.Flocker": refused, "VolumeSource.FC": refused, "VolumeSource.AzureFile": refused, "VolumeSource.VsphereVolume": refused,
	"VolumeSource.Quobyte": refused, "VolumeSource.AzureDisk": refused, "VolumeSource.PhotonPersistentDisk": refused, "VolumeSource.PortworxVolume": refused,
	"VolumeSource.ScaleIO": refused, "VolumeSource.StorageOS": refused, "VolumeSource.CSI": refused, "VolumeSource.Ephemeral": refused, "VolumeSource.Image": refused,

	"EmptyDirVolumeSource.Medium":    "on disk in any case, where etcd is, too",
	"EmptyDirVolumeSource.SizeLimit": noLimits,

	"SecretVolumeSource.SecretName": done, "SecretVolumeSource.Items": done, "SecretVolumeSource.DefaultMode": done, "SecretVolumeSource.Optional": done,
	"ConfigMapVolumeSource.LocalObjectReference": done, "ConfigMapVolumeSource.Items": done, "ConfigMapVolumeSource.DefaultMode": done, "ConfigMapVolumeSource.Optional": done,
	"KeyToPath.Key": done, "KeyToPath.Path": done, "KeyToPath.Mode": done,
	"DownwardAPIVolumeSource.Items": done, "DownwardAPIVolumeSource.DefaultMode": done, "DownwardAPIProjection.Items": done,
	"DownwardAPIVolumeFile.Path": done, "DownwardAPIVolumeFile.FieldRef": done, "DownwardAPIVolumeFile.ResourceFieldRef": done, "DownwardAPIVolumeFile.Mode": done,
	"ProjectedVolumeSource.Sources": done, "ProjectedVolumeSource.DefaultMode": done,
	"VolumeProjection.Secret": done, "VolumeProjection.DownwardAPI": done, "VolumeProjection.ConfigMap": done, "VolumeProjection.ServiceAccountToken": done,
	"VolumeProjection.ClusterTrustBundle": refused, "VolumeProjection.PodCertificate": refused,
	"SecretProjection.LocalObjectReference": done, "SecretProjection.Items": done, "SecretProjection.Optional": done,
	"ConfigMapProjection.LocalObjectReference": done, "ConfigMapProjection.Items": done, "ConfigMapProjection.Optional": done,
	"ServiceAccountTokenProjection.Audience": done, "ServiceAccountTokenProjection.ExpirationSeconds": done, "ServiceAccountTokenProjection.Path": done,
}

// TestEveryFieldOfAPod fails when Kubernetes has a field that podFields does not
// list: the node would ignore it silently.
func TestEveryFieldOfAPod(t *testing.T) {
	seen := map[string]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[corev1.PodSpec]().PkgPath() || seen[typ.Name()] {
			return
		}
		seen[typ.Name()] = true
		for i := range typ.NumField() {
			name := typ.Name() + "." + typ.Field(i).Name
			seen[name] = true
			switch podFields[name] {
			case "":
				t.Errorf("field %s: is it done, refused, or ignored for a reason? Say so in podFields", name)
			case done:
				visit(typ.Field(i).Type)
			case refused:
				if typ.Name() != "VolumeSource" && refusals[name] == nil {
					t.Errorf("field %s is refused, but refusals has no pod that asks for it", name)
				}
			}
		}
	}
	visit(reflect.TypeFor[corev1.PodSpec]())
	for name := range podFields {
		if !seen[name] {
			t.Errorf("podFields has %s, which a pod does not have, or not where the node looks", name)
		}
	}
}

// refusals make a pod use a refused field. Kinds of volumes are not among them.
var refusals = map[string]func(*corev1.PodSpec){
	"PodSpec.HostNetwork":       func(s *corev1.PodSpec) { s.HostNetwork = true },
	"PodSpec.HostPID":           func(s *corev1.PodSpec) { s.HostPID = true },
	"PodSpec.HostIPC":           func(s *corev1.PodSpec) { s.HostIPC = true },
	"PodSpec.HostUsers":         func(s *corev1.PodSpec) { s.HostUsers = ptr.To(false) },
	"PodSpec.SetHostnameAsFQDN": func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr.To(true) },
	"PodSpec.HostnameOverride":  func(s *corev1.PodSpec) { s.HostnameOverride = ptr.To("x") },
	"PodSpec.RuntimeClassName":  func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("x") },
	"PodSpec.ResourceClaims":    func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "x"}} },
	"PodSecurityContext.Sysctls": func(s *corev1.PodSpec) {
		s.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "x"}}}
	},
	"ResourceRequirements.Claims":  inContainer(func(c *corev1.Container) { c.Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} }),
	"Container.RestartPolicyRules": inContainer(func(c *corev1.Container) { c.RestartPolicyRules = []corev1.ContainerRestartRule{{}} }),
	"Container.VolumeDevices":      inContainer(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{}} }),
	"Container.Stdin":              inContainer(func(c *corev1.Container) { c.Stdin = true }),
	"Container.StdinOnce":          inContainer(func(c *corev1.Container) { c.StdinOnce = true }),
	"Container.TTY":                inContainer(func(c *corev1.Container) { c.TTY = true }),
	"SecurityContext.Privileged":   inContainer(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)} }),
	"SecurityContext.ProcMount": inContainer(func(c *corev1.Container) {
		c.SecurityContext = &corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}
	}),
	"Lifecycle.PostStart":  inContainer(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}} }),
	"Lifecycle.StopSignal": inContainer(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGHUP)} }),
	"LifecycleHandler.TCPSocket": inContainer(func(c *corev1.Container) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	}),
	"EnvVarSource.FileKeyRef": inContainer(func(c *corev1.Container) {
		c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
	}),
	"VolumeMount.RecursiveReadOnly": inContainer(func(c *corev1.Container) {
		c.VolumeMounts = []corev1.VolumeMount{{RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyEnabled)}}
	}),
	"VolumeMount.MountPropagation": inContainer(func(c *corev1.Container) {
		c.VolumeMounts = []corev1.VolumeMount{{MountPropagation: ptr.To(corev1.MountPropagationBidirectional)}}
	}),
	"VolumeProjection.ClusterTrustBundle": projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
	"VolumeProjection.PodCertificate":     projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}),

	"an os": func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} },
	"a capability": inContainer(func(c *corev1.Container) {
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
	}),
	"a host port of SCTP": inContainer(func(c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolSCTP}}
	}),
	"a container's own policy": inContainer(func(c *corev1.Container) { c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever) }),
	"an init container's policy": func(s *corev1.PodSpec) {
		s.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)}}
	},
	"a field of an init container": func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", TTY: true}} },
}

func inContainer(change func(*corev1.Container)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { change(&s.Containers[0]) }
}

func projected(source corev1.VolumeProjection) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}}}
	}
}

func TestRefusedFields(t *testing.T) {
	if what := unsupported(testPod("plain", corev1.RestartPolicyAlways)); len(what) > 0 {
		t.Errorf("a plain pod is refused for %q", what)
	}
	for name, ask := range refusals {
		pod := testPod("asking", corev1.RestartPolicyAlways)
		ask(&pod.Spec)
		if what := unsupported(pod); len(what) != 1 {
			t.Errorf("a pod that asks for %s is refused for %q, want one thing", name, what)
		}
	}
	for i := range reflect.TypeFor[corev1.VolumeSource]().NumField() {
		pod := testPod("volume", corev1.RestartPolicyAlways)
		pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
		source := reflect.ValueOf(&pod.Spec.Volumes[0].VolumeSource).Elem().Field(i)
		source.Set(reflect.New(source.Type().Elem()))
		name := "VolumeSource." + reflect.TypeFor[corev1.VolumeSource]().Field(i).Name
		if what := unsupported(pod); (len(what) == 1) != (podFields[name] == refused) {
			t.Errorf("a pod with a volume of %s, which is %s, is refused for %q", name, podFields[name], what)
		}
	}
}

func TestCapabilities(t *testing.T) {
	all := len(defaultCapabilities)
	for name, tc := range map[string]struct {
		drop, add []corev1.Capability
		kept      int
		has, not  []string
	}{
		"default":            {kept: all, has: []string{"NET_RAW", "CHOWN"}},
		"one less":           {drop: []corev1.Capability{"NET_RAW"}, kept: all - 1, has: []string{"CHOWN"}, not: []string{"NET_RAW"}},
		"the other spelling": {drop: []corev1.Capability{"cap_net_raw"}, kept: all - 1, not: []string{"NET_RAW"}},
		"none":               {drop: []corev1.Capability{"ALL"}, kept: 0},
		"none but one":       {drop: []corev1.Capability{"all"}, add: []corev1.Capability{"NET_BIND_SERVICE"}, kept: 1, has: []string{"NET_BIND_SERVICE"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := capabilities(&corev1.Container{SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: tc.drop, Add: tc.add}}})
			if len(got) != tc.kept {
				t.Errorf("%d capabilities are kept, want %d", len(got), tc.kept)
			}
			for _, name := range tc.has {
				if !slices.Contains(got, defaultCapabilities[name]) {
					t.Errorf("%s is not kept", name)
				}
			}
			for _, name := range tc.not {
				if slices.Contains(got, defaultCapabilities[name]) {
					t.Errorf("%s is kept", name)
				}
			}
		})
	}
}
