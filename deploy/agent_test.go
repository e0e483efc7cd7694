package deploy_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const agentName = "kedify-agent"

// The agent and the Job that takes back what it has done have accounts of their own, and the
// roles of both are bound to them.
func TestAgentAccounts(t *testing.T) {
	var job batchv1.Job
	read(t, "agent-uninstall/job.yaml", &job)
	for dir, pod := range map[string]corev1.PodSpec{"agent": deployment(t, "agent").Spec.Template.Spec, "agent-uninstall": job.Spec.Template.Spec} {
		var account corev1.ServiceAccount
		var clusterRole rbacv1.ClusterRole
		var role rbacv1.Role
		var clusterBinding rbacv1.ClusterRoleBinding
		var binding rbacv1.RoleBinding
		read(t, dir+"/serviceaccount.yaml", &account)
		read(t, dir+"/clusterrole.yaml", &clusterRole)
		read(t, dir+"/role.yaml", &role)
		read(t, dir+"/clusterrolebinding.yaml", &clusterBinding)
		read(t, dir+"/rolebinding.yaml", &binding)
		equal(t, "ServiceAccount", account.Name, pod.ServiceAccountName)
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: "keda"}}
		equal(t, dir+": subjects", subjects, clusterBinding.Subjects)
		equal(t, dir+": subjects", subjects, binding.Subjects)
		equal(t, dir+": role", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name}, clusterBinding.RoleRef)
		equal(t, dir+": role", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, binding.RoleRef)
		equal(t, dir+": name", strings.Replace(dir, "agent", agentName, 1), account.Name)
	}
}

// Outside its namespace the agent writes what it is for; of kinds that others use as well,
// objects of one name alone. In its namespace it reads one Secret and one ConfigMap.
func TestAgentPermissions(t *testing.T) {
	var clusterRole, uninstall rbacv1.ClusterRole
	var role rbacv1.Role
	read(t, "agent/clusterrole.yaml", &clusterRole)
	read(t, "agent-uninstall/clusterrole.yaml", &uninstall)
	read(t, "agent/role.yaml", &role)
	const proxy = " of kedify-proxy"
	writes := func(rules []rbacv1.PolicyRule) map[string]string {
		all := map[string]string{}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				if names := strings.Join(rule.ResourceNames, ", "); names != "" {
					resource += " of " + names
				}
				if verbs := slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) }); len(verbs) > 0 {
					all[resource] = strings.TrimSpace(all[resource] + " " + strings.Join(verbs, " "))
				}
			}
		}
		return all
	}
	reads := func(rules []rbacv1.PolicyRule) map[string]bool {
		all := map[string]bool{}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				if len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
					all[resource] = true
				}
			}
		}
		return all
	}
	equal(t, "what the agent writes", map[string]string{
		"scaledobjects": "patch", "httpscaledobjects": "create patch delete", "httpscaledobjects/status": "patch",
		"ingresses": "create patch delete", "events": "create patch", "mutatingwebhookconfigurations of " + agentName: "update",
		"services of kedify-proxy, kedify-proxy-admin": "create patch delete", "configmaps" + proxy: "create patch delete", "serviceaccounts" + proxy: "create patch delete",
		"deployments" + proxy: "create patch delete", "networkpolicies" + proxy: "create patch delete", "poddisruptionbudgets" + proxy: "create patch delete",
	}, writes(clusterRole.Rules))
	equal(t, "what the agent writes in its namespace", map[string]string{
		"leases": "create", "leases of " + agentName: "update", "secrets of " + agentName + "-webhook": "update",
	}, writes(role.Rules))
	equal(t, "what its end writes", map[string]string{
		"scaledobjects": "patch", "httpscaledobjects": "patch", "ingresses": "patch delete", "mutatingwebhookconfigurations of " + agentName: "delete",
		"services of kedify-proxy, kedify-proxy-admin": "delete", "configmaps" + proxy: "delete", "serviceaccounts" + proxy: "delete",
		"deployments" + proxy: "delete", "networkpolicies" + proxy: "delete", "poddisruptionbudgets" + proxy: "delete",
	}, writes(uninstall.Rules))
	for _, kind := range []string{"secrets", "configmaps", "leases"} {
		if reads(clusterRole.Rules)[kind] || reads(role.Rules)[kind] || reads(uninstall.Rules)[kind] {
			t.Errorf("it reads %s of any name", kind)
		}
	}
}

// The agent runs from the interceptor's image, where the Dockerfile puts it, and the Job, too.
func TestAgentRunsBesideTheInterceptor(t *testing.T) {
	var job batchv1.Job
	read(t, "agent-uninstall/job.yaml", &job)
	container, uninstall := deployment(t, "agent").Spec.Template.Spec.Containers[0], job.Spec.Template.Spec.Containers[0]
	image := deployment(t, "interceptor").Spec.Template.Spec.Containers[0].Image
	equal(t, "images", []string{image, image}, []string{container.Image, uninstall.Image})
	equal(t, "command", []string{"/agent"}, container.Command)
	equal(t, "command of the Job", []string{"/agent", "uninstall"}, uninstall.Command)
	equal(t, "restrictions of the Job", container.SecurityContext, uninstall.SecurityContext)
	equal(t, "restrictions of its pod", deployment(t, "agent").Spec.Template.Spec.SecurityContext, job.Spec.Template.Spec.SecurityContext)
	if !strings.Contains(readText(t, "../Dockerfile"), "COPY --from=build /agent /agent\n") {
		t.Error("the Dockerfile does not put the agent at /agent")
	}
}

// The API server calls the webhook for ScaledObjects with a kedify-http trigger alone, may
// call it in a dry run, and goes on without it.
func TestAgentWebhook(t *testing.T) {
	var configuration admissionv1.MutatingWebhookConfiguration
	read(t, "agent/mutatingwebhookconfiguration.yaml", &configuration)
	equal(t, "name", agentName, configuration.Name)
	if len(configuration.Webhooks) != 1 {
		t.Fatalf("%d webhooks, want 1", len(configuration.Webhooks))
	}
	webhook := configuration.Webhooks[0]
	var service corev1.Service
	if err := yaml.UnmarshalStrict(documents(t, "agent/services.yaml")[0], &service); err != nil {
		t.Fatal(err)
	}
	called := webhook.ClientConfig.Service
	equal(t, "Service", service.Name, called.Name)
	equal(t, "namespace", "keda", called.Namespace)
	equal(t, "port", service.Spec.Ports[0].Port, *called.Port)
	equal(t, "rules", []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups: []string{"keda.sh"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"scaledobjects"},
			Scope: new(admissionv1.NamespacedScope),
		},
	}}, webhook.Rules)
	equal(t, "conditions", 1, len(webhook.MatchConditions))
	equal(t, "failurePolicy", admissionv1.Ignore, *webhook.FailurePolicy)
	equal(t, "sideEffects", admissionv1.SideEffectClassNone, *webhook.SideEffects)
	equal(t, "timeoutSeconds", 2, *webhook.TimeoutSeconds)

	var policy networkingv1.NetworkPolicy
	read(t, "agent/networkpolicy.yaml", &policy)
	d := deployment(t, "agent").Spec
	equal(t, "pods", d.Selector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
	open := map[int32]bool{}
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[containerPort(d.Template.Spec, port.Port.StrVal)] = len(rule.From) == 0
		}
	}
	// The API server and kubelets are no pods.
	equal(t, "ports open to all", map[int32]bool{9443: true, 8081: true, 2223: true}, open)
}
