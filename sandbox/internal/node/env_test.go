package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// objects are sources for tests, by name.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
}

func (o objects) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	data, ok := o.configMaps[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}, nil
}

func (o objects) secret(namespace, name string) (*corev1.Secret, error) {
	data, ok := o.secrets[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	return secret, nil
}

func testPodEnv() podEnv {
	return podEnv{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "demo", Name: "web-1", UID: "u-1",
				Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "hi"},
			},
			Spec: corev1.PodSpec{NodeName: "sandbox", ServiceAccountName: "robot"},
		},
		podIP: "10.244.1.7", hostIP: "10.244.0.1",
		capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi")},
		services: map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1"},
		sources: objects{
			configMaps: map[string]map[string]string{"cm": {"key": "from-cm", "other": "o", "not a name=": "x"}},
			secrets:    map[string]map[string]string{"secret": {"key": "from-secret"}},
		},
	}
}

func TestEnvironment(t *testing.T) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	configKey := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	secretKey := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	amount := func(resource, divisor string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: resource, Divisor: quantity(divisor)}}
	}
	configFrom := func(name, prefix string, optional *bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional}}
	}
	tests := map[string]struct {
		env     []corev1.EnvVar
		from    []corev1.EnvFromSource
		image   []string
		want    map[string]string // besides KUBERNETES_SERVICE_HOST
		wantErr string
	}{
		"values refer to those before and to services": {
			env: []corev1.EnvVar{
				{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)"}, {Name: "C", Value: "3"},
				{Name: "API", Value: "https://$(KUBERNETES_SERVICE_HOST)"}, {Name: "D", Value: "$$(A) $(A"},
			},
			want: map[string]string{"A": "1", "B": "1$(C)", "C": "3", "API": "https://10.96.0.1", "D": "$(A) $(A"},
		},
		"the image's own, overridden": {
			image: []string{"COLOR=blue", "HOME=/home"}, env: []corev1.EnvVar{{Name: "COLOR", Value: "red"}},
			want: map[string]string{"COLOR": "red", "HOME": "/home"},
		},
		"fields": {
			env: []corev1.EnvVar{
				{Name: "IP", ValueFrom: field("status.podIP")}, {Name: "HOST", ValueFrom: field("status.hostIP")},
				{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "NS", ValueFrom: field("metadata.namespace")},
				{Name: "UID", ValueFrom: field("metadata.uid")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "SA", ValueFrom: field("spec.serviceAccountName")},
				{Name: "LABEL", ValueFrom: field("metadata.labels['app']")}, {Name: "NOTE", ValueFrom: field("metadata.annotations['note']")},
			},
			want: map[string]string{
				"IP": "10.244.1.7", "HOST": "10.244.0.1", "NAME": "web-1", "NS": "demo", "UID": "u-1", "NODE": "sandbox",
				"SA": "robot", "LABEL": "web", "NOTE": "hi",
			},
		},
		"unknown field": {env: []corev1.EnvVar{{Name: "X", ValueFrom: field("spec.nonsense")}}, wantErr: "env X: fieldRef"},
		"resources": {
			env: []corev1.EnvVar{
				{Name: "CPU", ValueFrom: amount("limits.cpu", "0")}, {Name: "MILLI", ValueFrom: amount("limits.cpu", "1m")},
				{Name: "MEM", ValueFrom: amount("requests.memory", "1Mi")}, {Name: "ALL", ValueFrom: amount("limits.memory", "1Gi")},
			},
			want: map[string]string{"CPU": "2", "MILLI": "1500", "MEM": "64", "ALL": "256"},
		},
		"keys": {
			env:  []corev1.EnvVar{{Name: "C", ValueFrom: configKey("cm", "key", nil)}, {Name: "S", ValueFrom: secretKey("secret", "key", nil)}},
			want: map[string]string{"C": "from-cm", "S": "from-secret"},
		},
		"optional ones that are missing are left out": {
			env: []corev1.EnvVar{
				{Name: "A", ValueFrom: configKey("none", "key", ptr.To(true))}, {Name: "B", ValueFrom: configKey("cm", "none", ptr.To(true))},
				{Name: "C", ValueFrom: secretKey("none", "key", ptr.To(true))}, {Name: "D", ValueFrom: secretKey("secret", "none", ptr.To(true))},
			},
			from: []corev1.EnvFromSource{configFrom("none", "", ptr.To(true))},
			want: map[string]string{},
		},
		"missing ConfigMap":         {env: []corev1.EnvVar{{Name: "X", ValueFrom: configKey("none", "key", nil)}}, wantErr: `env X: configmaps "none" not found`},
		"missing key":               {env: []corev1.EnvVar{{Name: "X", ValueFrom: configKey("cm", "none", nil)}}, wantErr: "couldn't find key none in ConfigMap demo/cm"},
		"missing Secret":            {env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("none", "key", nil)}}, wantErr: `secrets "none" not found`},
		"missing secret key":        {env: []corev1.EnvVar{{Name: "X", ValueFrom: secretKey("secret", "none", nil)}}, wantErr: "couldn't find key none in Secret demo/secret"},
		"missing envFrom":           {from: []corev1.EnvFromSource{configFrom("none", "", nil)}, wantErr: `envFrom: configmaps "none" not found`},
		"resource of a stupid kind": {env: []corev1.EnvVar{{Name: "X", ValueFrom: amount("bananas.cpu", "0")}}, wantErr: "expected limits.NAME or requests.NAME"},
		"envFrom with a prefix, without keys that are no names": {
			from: []corev1.EnvFromSource{configFrom("cm", "P_", nil)}, env: []corev1.EnvVar{{Name: "X", Value: "$(P_key)"}},
			want: map[string]string{"P_key": "from-cm", "P_other": "o", "X": "from-cm"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Name: "web", Env: tt.env, EnvFrom: tt.from, Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
				Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			}}
			got, err := testPodEnv().environment(c, tt.image)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("environment = %v, %v; want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.want["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func TestServiceEnv(t *testing.T) {
	service := func(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	services := []*corev1.Service{
		service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443}),
		service("demo", "my-web", "10.96.0.5", corev1.ServicePort{Port: 80}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}),
		service("demo", "headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 80}),
		service("other", "web", "10.96.0.6", corev1.ServicePort{Port: 80}),
	}
	api := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
	}
	if diff := cmp.Diff(api, serviceEnv(services, "demo", false)); diff != "" {
		t.Errorf("without links (-want +got):\n%s", diff)
	}
	for name, value := range map[string]string{
		"MY_WEB_SERVICE_HOST": "10.96.0.5", "MY_WEB_SERVICE_PORT": "80", "MY_WEB_SERVICE_PORT_DNS": "53", "MY_WEB_PORT": "tcp://10.96.0.5:80",
		"MY_WEB_PORT_80_TCP": "tcp://10.96.0.5:80", "MY_WEB_PORT_80_TCP_PROTO": "tcp", "MY_WEB_PORT_80_TCP_PORT": "80", "MY_WEB_PORT_80_TCP_ADDR": "10.96.0.5",
		"MY_WEB_PORT_53_UDP": "udp://10.96.0.5:53", "MY_WEB_PORT_53_UDP_PROTO": "udp", "MY_WEB_PORT_53_UDP_PORT": "53", "MY_WEB_PORT_53_UDP_ADDR": "10.96.0.5",
	} {
		api[name] = value
	}
	if diff := cmp.Diff(api, serviceEnv(services, "demo", true)); diff != "" {
		t.Errorf("with links (-want +got):\n%s", diff)
	}
}

func TestCommandLine(t *testing.T) {
	env := map[string]string{"COLOR": "blue"}
	tests := map[string]struct {
		command, args, want []string
	}{
		"the image's":              {want: []string{"/demo", "serve"}},
		"args replace the image's": {args: []string{"--color=$(COLOR)"}, want: []string{"/demo", "--color=blue"}},
		"command replaces both":    {command: []string{"/other", "$$(COLOR)"}, want: []string{"/other", "$(COLOR)"}},
		"command and args":         {command: []string{"/other"}, args: []string{"$(NONE)"}, want: []string{"/other", "$(NONE)"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &corev1.Container{Command: tt.command, Args: tt.args}
			if diff := cmp.Diff(tt.want, commandLine(c, []string{"/demo"}, []string{"serve"}, env)); diff != "" {
				t.Errorf("command line (-want +got):\n%s", diff)
			}
		})
	}
}
