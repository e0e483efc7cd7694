package routes_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/routes"
	"github.com/kedify/argo-rollouts-plugin/internal/weightedbackends"
)

// Example shows how objects become the backends of a request, and how a change becomes
// what Envoy has to be told.
func Example() {
	port, name, target := int32(80), "http", int32(8080)
	app := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "app"},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{"app.example.com"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: "stable", Port: &port},
		},
	}
	b := routes.NewBuilder()
	b.SetHTTPScaledObject(app)
	for i, service := range []string{"stable", "canary"} {
		b.SetService(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: service},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: port}}},
		})
		b.SetEndpointSlice(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Ports:      []discoveryv1.EndpointPort{{Name: &name, Port: &target}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprint("10.0.0.", i+1)}}},
		})
	}
	b.Commit()

	app.Annotations = map[string]string{weightedbackends.Annotation: "- {service: stable, weight: 80}\n- {service: canary, weight: 20}\n"}
	b.SetHTTPScaledObject(app)
	table, changes := b.Commit()

	route := table.Lookup("app.example.com:8080", routes.PathOf("/cart?id=1"), nil)
	for _, backend := range route.Backends {
		fmt.Println(backend.Cluster, backend.Share, backend.Active())
	}
	for _, cluster := range changes.Clusters {
		fmt.Println("cluster", cluster.Name, "is new:", cluster.Before == nil)
	}
	for _, domain := range changes.VirtualHosts(table) {
		host, _ := table.VirtualHost(domain, nil)
		for _, match := range host.Matches {
			fmt.Println("virtual host", domain, match.PathPrefix, match.Route.Name)
		}
	}
	// Output:
	// demo/app/stable 80 [10.0.0.1:8080]
	// demo/app/canary 20 [10.0.0.2:8080]
	// cluster demo/app/canary is new: true
	// virtual host app.example.com / demo/app
}
