package deploy_test

import (
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

// Each component mounts the Secret that the docs name, read-only, in the Deployment's
// container, and changes nothing else of the pod but environment variables.
func TestComponentsMountTheirSecrets(t *testing.T) {
	for dir, want := range map[string]struct{ base, container, volume, path, secret string }{
		"components/tls":                         {"interceptor", "interceptor", "certs", "/certs", "keda-tls-certs"},
		"components/xds-mutual-tls/interceptor":  {"interceptor", "interceptor", "xds-certs", "/xds-certs", interceptorName + "-xds"},
		"components/xds-mutual-tls/kedify-proxy": {"kedify-proxy", "envoy", "xds-certs", "/xds-certs", "kedify-proxy-xds"},
	} {
		t.Run(dir, func(t *testing.T) {
			base, patch := deployment(t, want.base), patched(t, dir)
			equal(t, "name", base.Name, patch.Name)
			// The JSON patch for arguments changes the first container.
			equal(t, "container of "+want.base, want.container, base.Spec.Template.Spec.Containers[0].Name)
			equal(t, "pod", corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: want.container, Env: patch.Spec.Template.Spec.Containers[0].Env,
					VolumeMounts: []corev1.VolumeMount{{Name: want.volume, MountPath: want.path, ReadOnly: true}},
				}},
				Volumes: []corev1.Volume{{
					Name: want.volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: want.secret}},
				}},
			}, patch.Spec.Template.Spec)
			for _, text := range []string{readText(t, dir+"/kustomization.yaml"), readText(t, "../docs/interceptor.md")} {
				if !strings.Contains(text, want.secret) {
					t.Errorf("%s is not named in:\n%s", want.secret, text)
				}
			}
		})
	}
}

// The interceptor's options name the files that are mounted.
func TestComponentsNameTheMountedFiles(t *testing.T) {
	equal(t, "environment", []corev1.EnvVar{
		{Name: "KEDA_HTTP_PROXY_TLS_ENABLED", Value: "true"},
		{Name: "KEDA_HTTP_PROXY_TLS_CERT_PATH", Value: "/certs/tls.crt"},
		{Name: "KEDA_HTTP_PROXY_TLS_KEY_PATH", Value: "/certs/tls.key"},
	}, patched(t, "components/tls").Spec.Template.Spec.Containers[0].Env)

	for dir, want := range map[string][]string{
		"interceptor":        {"--xds-cert-file=/xds-certs/tls.crt", "--xds-key-file=/xds-certs/tls.key", "--xds-client-ca-file=/xds-certs/ca.crt"},
		"require-namespaces": {"--xds-require-namespaces"},
	} {
		kustomization := readText(t, "components/xds-mutual-tls/"+dir+"/kustomization.yaml")
		var flags []string
		for _, match := range regexp.MustCompile(`(?m)^ +- op: add\n +path: /spec/template/spec/containers/0/args/-\n +value: (.+)$`).FindAllStringSubmatch(kustomization, -1) {
			flags = append(flags, match[1])
		}
		equal(t, "flags of "+dir, want, flags)
	}
}

// kedify-proxy's bootstrap for mutual TLS is what `interceptor bootstrap` prints,
// and finds its files where the ConfigMap is mounted.
func TestKedifyProxyBootstrapForMutualTLS(t *testing.T) {
	var base, patch corev1.ConfigMap
	read(t, "kedify-proxy/configmap.yaml", &base)
	read(t, "components/xds-mutual-tls/kedify-proxy/configmap-patch.yaml", &patch)
	equal(t, "name", base.Name, patch.Name)
	o := envoy.BootstrapOptions{
		XDSAddress: interceptorName + "-xds.keda:5678", FallbackAddress: interceptorName + "-fallback.keda:8081", MaxHeap: maxHeap, SecretsDir: "/etc/envoy",
		CAFile: "/xds-certs/ca.crt", CertFile: "/xds-certs/tls.crt", KeyFile: "/xds-certs/tls.key",
	}
	bootstrap, err := envoy.Bootstrap(o)
	if err != nil {
		t.Fatal(err)
	}
	certificate, authority, err := envoy.SecretFiles(o)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "data (make generate writes them)", map[string]string{
		"envoy.yaml": string(bootstrap), envoy.CertificateFileName: string(certificate), envoy.AuthorityFileName: string(authority),
	}, patch.Data)
	for _, mount := range deployment(t, "kedify-proxy").Spec.Template.Spec.Containers[0].VolumeMounts {
		if mount.Name == "bootstrap" {
			equal(t, "where the ConfigMap is mounted", o.SecretsDir, mount.MountPath)
			return
		}
	}
	t.Error("the ConfigMap is not mounted")
}

// patched returns a component's patch of a Deployment.
func patched(t *testing.T, dir string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	read(t, dir+"/deployment-patch.yaml", &d)
	return d
}
