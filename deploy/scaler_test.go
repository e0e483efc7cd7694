package deploy_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

const scalerName = "keda-add-ons-http-external-scaler"

// The scaler may read HTTPScaledObjects and EndpointSlices, and nothing else.
func TestScalerPermissions(t *testing.T) {
	var role rbacv1.ClusterRole
	read(t, "scaler/clusterrole.yaml", &role)
	equal(t, "rules", []rbacv1.PolicyRule{
		{APIGroups: []string{"http.keda.sh"}, Resources: []string{"httpscaledobjects"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
	}, role.Rules)
	var binding rbacv1.ClusterRoleBinding
	read(t, "scaler/clusterrolebinding.yaml", &binding)
	equal(t, "role referred to", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}, binding.RoleRef)
	var account corev1.ServiceAccount
	read(t, "scaler/serviceaccount.yaml", &account)
	equal(t, "subjects", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: "keda"}}, binding.Subjects)
	equal(t, "ServiceAccount", account.Name, deployment(t, "scaler").Spec.Template.Spec.ServiceAccountName)
	equal(t, "name", scalerName, account.Name)
}

// The scaler runs from the interceptor's image, where the Dockerfile puts it, and follows the
// interceptors of deploy/interceptor.
func TestScalerRunsBesideTheInterceptor(t *testing.T) {
	container := deployment(t, "scaler").Spec.Template.Spec.Containers[0]
	equal(t, "image", deployment(t, "interceptor").Spec.Template.Spec.Containers[0].Image, container.Image)
	equal(t, "command", []string{"/scaler"}, container.Command)
	if !strings.Contains(readText(t, "../Dockerfile"), "COPY --from=build /scaler /scaler\n") {
		t.Error("the Dockerfile does not put the scaler at /scaler")
	}
	// 9090, that Service's port, is the default of --interceptor-port.
	if flag := "--interceptor-service=" + interceptorName + "-admin"; !slices.Contains(container.Args, flag) {
		t.Errorf("no %s among the arguments %q", flag, container.Args)
	}
	limit := container.Resources.Limits.Memory().Value()
	ofGo := resource.MustParse(strings.TrimSuffix(container.Env[1].Value, "B"))
	if got := ofGo.Value(); container.Env[1].Name != "GOMEMLIMIT" || got > limit/10*9 || got < limit/10*8 {
		t.Errorf("%s is %d of %d bytes, want GOMEMLIMIT of nine tenths or a little less", container.Env[1].Name, got, limit)
	}
}

// KEDA gets the addresses of all scalers from DNS, and nobody outside the namespace reaches
// their gRPC port.
func TestScalerIsForKEDA(t *testing.T) {
	var service corev1.Service
	if err := yaml.UnmarshalStrict(documents(t, "scaler/services.yaml")[0], &service); err != nil {
		t.Fatal(err)
	}
	equal(t, "name", scalerName, service.Name)
	equal(t, "clusterIP", corev1.ClusterIPNone, service.Spec.ClusterIP)

	var policy networkingv1.NetworkPolicy
	read(t, "scaler/networkpolicy.yaml", &policy)
	d := deployment(t, "scaler").Spec
	equal(t, "pods", d.Selector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
	for _, rule := range policy.Spec.Ingress {
		anywhere := len(rule.From) == 0
		for _, peer := range rule.From {
			anywhere = anywhere || peer.NamespaceSelector != nil || peer.IPBlock != nil
		}
		for _, port := range rule.Ports {
			if grpc := containerPort(d.Template.Spec, port.Port.StrVal) == 9090; grpc == anywhere {
				t.Errorf("port %s: from outside the namespace %v", port.Port.StrVal, anywhere)
			}
		}
	}
}
