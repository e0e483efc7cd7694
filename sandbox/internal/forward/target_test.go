package forward

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"web":           {Namespace: "default", Service: "web"},
		"web:80":        {Namespace: "default", Service: "web", Port: "80"},
		"demo/web":      {Namespace: "demo", Service: "web"},
		"demo/web:http": {Namespace: "demo", Service: "web", Port: "http"},
	} {
		got, err := ParseTarget(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "/web", "demo/", "web:", ":80", "demo/web/x", "svc/demo/web"} {
		if got, err := ParseTarget(text); err == nil || !strings.Contains(err.Error(), "[NAMESPACE/]SERVICE[:PORT]") {
			t.Errorf("%q: %+v, %v; want an error that says what is expected", text, got, err)
		}
	}
}

func TestChoosePort(t *testing.T) {
	https := "https"
	http := corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}
	secure := corev1.ServicePort{Name: "tls", Port: 8443, AppProtocol: &https}
	names := corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}
	namesToo := corev1.ServicePort{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}
	for name, tc := range map[string]struct {
		spec corev1.ServiceSpec
		port string
		// want is the scheme and the name of the port, or err part of the error.
		want, err string
	}{
		"the only port":             {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http}}, want: "http http"},
		"by number":                 {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, secure}}, port: "8443", want: "https tls"},
		"by name":                   {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, secure}}, port: "http", want: "http http"},
		"one number, two protocols": {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{names, namesToo}}, port: "53", want: "http dns-tcp"},
		"several":                   {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, secure}}, err: "Service demo/web has several ports: 80 (http), 8443 (tls); add one, as in demo/web:80"},
		"none of the name":          {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, names}}, port: "grpc", err: `has no port "grpc"; it has 80 (http), 53 (dns, UDP)`},
		"UDP":                       {spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{http, names}}, port: "dns", err: "port 53 (dns, UDP) is not TCP"},
		"headless":                  {spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{http}}, err: "is headless"},
		"external name":             {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, Ports: []corev1.ServicePort{http}}, err: "ExternalName"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Target{Namespace: "demo", Service: "web", Port: tc.port}.choosePort(&corev1.Service{Spec: tc.spec})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || scheme(got)+" "+got.Name != tc.want {
				t.Errorf("%s %s, %v; want %s", scheme(got), got.Name, err, tc.want)
			}
		})
	}
}
