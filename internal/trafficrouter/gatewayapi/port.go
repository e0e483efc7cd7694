package gatewayapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// port returns the PortFunc for Rollouts of a namespace, for as long as ctx lives. It
// reads both Services, and is called only for an experiment that is new on a route.
func (b *backend) port(ctx context.Context, namespace string) PortFunc {
	return func(experiment, stable string, port int32) (int32, error) {
		from, err := b.service(ctx, namespace, stable)
		if err != nil {
			return 0, err
		}
		to, err := b.service(ctx, namespace, experiment)
		if err != nil {
			return 0, err
		}
		return portOf(to, from, port)
	}
}

func (b *backend) service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	service := &corev1.Service{}
	if err := b.whole.Get(ctx, corev1.SchemeGroupVersion.WithResource("services"), namespace, name, service); err != nil {
		return nil, fmt.Errorf("Service %s/%s, for the ports of an experiment: %w", namespace, name, err)
	}
	return service, nil
}

// portOf returns the port of an experiment's Service that reaches the targetPort
// which a port of the stable Service reaches.
func portOf(experiment, stable *corev1.Service, port int32) (int32, error) {
	for _, p := range stable.Spec.Ports {
		if p.Port != port {
			continue
		}
		for _, other := range experiment.Spec.Ports {
			if targetOf(other) == targetOf(p) && protocolOf(other) == protocolOf(p) {
				return other.Port, nil
			}
		}
		return 0, fmt.Errorf("Service %s/%s has no port for targetPort %s, which port %d of the stable Service %s reaches: add one",
			experiment.Namespace, experiment.Name, targetOf(p), port, stable.Name)
	}
	return 0, fmt.Errorf("the stable Service %s/%s has no port %d, to which the route refers: correct either", stable.Namespace, stable.Name, port)
}

func targetOf(p corev1.ServicePort) string {
	if p.TargetPort == (intstr.IntOrString{}) {
		return fmt.Sprint(p.Port) // the API server's default
	}
	return p.TargetPort.String()
}

func protocolOf(p corev1.ServicePort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}
