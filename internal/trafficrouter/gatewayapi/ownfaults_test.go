package gatewayapi

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func TestOwnFaults(t *testing.T) {
	port := func(number int32, protocol string) *corev1.Service {
		p := corev1.ServicePort{Port: number}
		if protocol != "" {
			p.AppProtocol = &protocol
		}
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9000}, p}}}
	}
	grant := func(text string) map[string]any { return parse("spec: " + text).Object }
	const ours = `{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra}], to: [{group: "", kind: Service}]}`
	const oneOfOurs = `{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra}], to: [{group: "", kind: Service, name: app-stable}]}`
	const others = `{from: [{group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: infra}], to: [{group: "", kind: Service}]}`
	both := map[string]*corev1.Service{"app-stable": port(80, ""), "app-canary": port(80, "")}
	for name, tc := range map[string]struct {
		services  map[string]*corev1.Service
		before    []refusal
		namespace string // of the route
		grants    map[string]string
		refused   string // resource that may not be read
		want      []string
	}{
		"none":             {services: both},
		"a Service is not": {services: map[string]*corev1.Service{"app-stable": port(80, "")}, want: []string{"Service demo/app-canary does not exist"}},
		"a port is not": {
			services: map[string]*corev1.Service{"app-stable": port(80, ""), "app-canary": port(8080, "")},
			want:     []string{"Service demo/app-canary has no port 80, to which the route refers"},
		},
		"another of the same rule is not": {
			services: map[string]*corev1.Service{"app-stable": port(80, ""), "app-canary": port(80, ""), "app-experiment": nil},
			want:     []string{"Service demo/app-experiment does not exist"},
		},
		"a protocol": {services: map[string]*corev1.Service{"app-stable": port(80, "kubernetes.io/ws"), "app-canary": port(80, "")}},
		"a protocol, where one is not known": {
			services: map[string]*corev1.Service{"app-stable": port(80, "kubernetes.io/ws"), "app-canary": port(80, "")},
			before:   []refusal{{Reason: "UnsupportedProtocol"}},
			want:     []string{"port 80 of Service demo/app-stable has appProtocol kubernetes.io/ws"},
		},
		"may not be read": {
			services: both, refused: "services",
			want: []string{
				"Service demo/app-canary: the controller's ServiceAccount may not get services: apply ClusterRole argo-rollouts-gatewayapi",
				"Service demo/app-experiment: the controller's ServiceAccount may not get services",
				"Service demo/app-stable: the controller's ServiceAccount may not get services",
			},
		},
		"granted by v1beta1": {services: both, namespace: "infra", grants: map[string]string{"v1beta1": ours}},
		"granted by v1":      {services: both, namespace: "infra", grants: map[string]string{"v1": ours}},
		"granted by both":    {services: both, namespace: "infra", grants: map[string]string{"v1beta1": ours, "v1": ours}},
		"granted in part": {
			services: both, namespace: "infra", grants: map[string]string{"v1": oneOfOurs},
			want: []string{"no ReferenceGrant in namespace demo lets HTTPRoute of namespace infra refer to Service app-canary", "no ReferenceGrant in namespace demo lets HTTPRoute of namespace infra refer to Service app-experiment"},
		},
		"granted to others": {
			services: both, namespace: "infra", grants: map[string]string{"v1": others},
			want: []string{"no ReferenceGrant in namespace demo lets HTTPRoute of namespace infra refer to Service app-canary", "no ReferenceGrant in namespace demo lets HTTPRoute of namespace infra refer to Service app-experiment", "no ReferenceGrant in namespace demo lets HTTPRoute of namespace infra refer to Service app-stable"},
		},
		"grants are not served": {
			services: both, namespace: "infra",
			want: []string{"no ReferenceGrant in namespace demo lets", "no ReferenceGrant in namespace demo lets", "no ReferenceGrant in namespace demo lets"},
		},
		"grants may not be read": {
			services: both, namespace: "infra", grants: map[string]string{"v1beta1": ours, "v1": ours}, refused: "referencegrants",
			want: []string{"ReferenceGrants of namespace demo: the controller's ServiceAccount may not list referencegrants.gateway.networking.k8s.io: apply ClusterRole argo-rollouts-gatewayapi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := apiservertest.New(t)
			if _, ok := tc.services["app-experiment"]; !ok {
				tc.services = maps.Clone(tc.services)
				tc.services["app-experiment"] = port(80, "")
			}
			for name, service := range tc.services {
				if service == nil {
					continue
				}
				service = service.DeepCopy()
				service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
				service.Namespace, service.Name = "demo", name
				server.PutObject("services", service)
			}
			var versions []apiservertest.Version
			for version, spec := range tc.grants {
				versions = append(versions, apiservertest.Version{Name: version, Kinds: map[string]string{"ReferenceGrant": "referencegrants"}})
				g := grant(spec)
				g["metadata"] = map[string]any{"namespace": "demo", "name": "ours"}
				server.PutObject("referencegrants", g)
			}
			server.Serve(Group, versions...)
			server.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
				if request.Resource != tc.refused {
					return false
				}
				apiservertest.Forbidden(w, request)
				return true
			})
			route := parse(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: demo, name: app}
spec:
  rules:
    - backendRefs:
        - {name: app-stable, namespace: demo, port: 80, weight: 100}
        - {name: app-canary, namespace: demo, port: 80, weight: 0}
    - backendRefs:
        - {name: app-canary, namespace: other, port: 80}
        - {name: gone, port: 80}
    - backendRefs:
        - {name: app-stable, namespace: demo, port: 80}
        - {name: app-experiment, namespace: demo, port: 80}
        - {name: bucket, kind: Storage, group: example.com}
`)
			if tc.namespace != "" {
				route.SetNamespace(tc.namespace)
			}
			b := backend{whole: kube.NewObjects(server.Config)}
			ro := RolloutOf(app(named), nil)
			got := b.ownFaults(t.Context(), route, ro, tc.before)
			for i := range min(len(got), len(tc.want)) {
				if strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
