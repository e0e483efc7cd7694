package gatewayapi

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestPortOf(t *testing.T) {
	service := func(name string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.ServiceSpec{Ports: ports}}
	}
	port := func(number int32, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Port: number, TargetPort: target}
	}
	number, text := intstr.FromInt32, intstr.FromString
	for name, tc := range map[string]struct {
		experiment, stable *corev1.Service
		port, want         int32
		err                string
	}{
		"the same port":            {service("e", port(80, number(8080))), service("s", port(80, number(8080))), 80, 80, ""},
		"another port":             {service("e", port(8080, number(8080))), service("s", port(80, number(8080))), 80, 8080, ""},
		"of several":               {service("e", port(1, number(9090)), port(2, number(8080))), service("s", port(80, number(8080)), port(90, number(9090))), 90, 1, ""},
		"by name":                  {service("e", port(81, text("http"))), service("s", port(80, text("http"))), 80, 81, ""},
		"targetPort by default":    {service("e", port(7, number(80))), service("s", port(80, intstr.IntOrString{})), 80, 7, ""},
		"none":                     {service("e", port(80, number(9090))), service("s", port(80, number(8080))), 80, 0, "Service demo/e has no port for targetPort 8080, which port 80 of the stable Service s reaches: add one"},
		"another protocol":         {service("e", corev1.ServicePort{Port: 80, TargetPort: number(8080), Protocol: corev1.ProtocolUDP}), service("s", port(80, number(8080))), 80, 0, "has no port for targetPort 8080"},
		"the stable Service lacks": {service("e", port(80, number(8080))), service("s", port(80, number(8080))), 81, 0, "the stable Service demo/s has no port 81, to which the route refers"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := portOf(tc.experiment, tc.stable, tc.port)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("port %d, error %v; want %d, %q", got, err, tc.want, tc.err)
			}
		})
	}
}
