// Package forward relays connections from the host to a Service of a sandbox.
package forward

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Target names a Service, and one of its ports or none.
type Target struct {
	Namespace, Service string
	// Port is a number or a name; empty is the only port.
	Port string
}

// ParseTarget reads [NAMESPACE/]SERVICE[:PORT]. Without a namespace it is
// "default", as kubectl's.
func ParseTarget(text string) (Target, error) {
	t := Target{Namespace: corev1.NamespaceDefault}
	name, port, hasPort := strings.Cut(text, ":")
	t.Service, t.Port = name, port
	if namespace, service, ok := strings.Cut(name, "/"); ok {
		t.Namespace, t.Service = namespace, service
	}
	if t.Namespace == "" || t.Service == "" || strings.Contains(t.Service, "/") || hasPort && port == "" {
		return Target{}, fmt.Errorf("%q: expected [NAMESPACE/]SERVICE[:PORT], as in demo/web:80 or web:http", text)
	}
	return t, nil
}

// String is the Service, as error messages name it.
func (t Target) String() string { return "Service " + t.Namespace + "/" + t.Service }

// choosePort returns the port of the Service that the target means. The error
// lists the ports there are.
func (t Target) choosePort(service *corev1.Service) (corev1.ServicePort, error) {
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return corev1.ServicePort{}, fmt.Errorf("%s is of type ExternalName: it has no address in the sandbox; forward to a Service with a ClusterIP", t)
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return corev1.ServicePort{}, fmt.Errorf("%s is headless: it has no address of its own; forward to a Service with a ClusterIP", t)
	}
	var found []corev1.ServicePort
	for _, port := range service.Spec.Ports {
		if t.Port == "" || t.Port == port.Name || t.Port == strconv.Itoa(int(port.Port)) {
			found = append(found, port)
		}
	}
	tcp := withTCP(found)
	switch {
	case len(tcp) == 1:
		return tcp[0], nil
	case len(found) == 0:
		return corev1.ServicePort{}, fmt.Errorf("%s has no port %q; it has %s", t, t.Port, describe(service.Spec.Ports))
	case len(tcp) == 0:
		return corev1.ServicePort{}, fmt.Errorf("%s: port %s is not TCP, and only TCP is forwarded", t, describe(found))
	}
	return corev1.ServicePort{}, fmt.Errorf("%s has several ports: %s; add one, as in %s/%s:%d",
		t, describe(service.Spec.Ports), t.Namespace, t.Service, tcp[0].Port)
}

func withTCP(ports []corev1.ServicePort) []corev1.ServicePort {
	var tcp []corev1.ServicePort
	for _, port := range ports {
		if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
			tcp = append(tcp, port)
		}
	}
	return tcp
}

// describe lists ports as 80 (http), 53 (dns, UDP).
func describe(ports []corev1.ServicePort) string {
	var list []string
	for _, port := range ports {
		text, notes := strconv.Itoa(int(port.Port)), []string{}
		if port.Name != "" {
			notes = append(notes, port.Name)
		}
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
			notes = append(notes, string(port.Protocol))
		}
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, ", ") + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// scheme guesses the protocol of a port, for the URL to print.
func scheme(port corev1.ServicePort) string {
	if port.Port == 443 || strings.HasPrefix(port.Name, "https") || port.AppProtocol != nil && *port.AppProtocol == "https" {
		return "https"
	}
	return "http"
}
