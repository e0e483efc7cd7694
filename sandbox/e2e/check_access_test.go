package e2e

import (
	"os"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/checktest"
	"github.com/kedify/argo-rollouts-plugin/sandbox/testkit/e2etest"
)

// A user with few permissions gets warnings that say what could not be checked and what
// it takes to check it. They are not failures.
func TestCheckWithLittleAccess(t *testing.T) {
	t.Parallel()
	n := e2etest.NewNamespace(t)
	n.Apply(e2etest.App{}.Manifest())
	n.AwaitHealthy("app", e2etest.Image("blue"))
	n.Apply(`
apiVersion: v1
kind: ServiceAccount
metadata:
  name: nobody
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: developer
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: developer
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: view
subjects:
  - kind: ServiceAccount
    name: developer
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: developer
rules:
  - apiGroups: ["argoproj.io"]
    resources: ["rollouts"]
    verbs: ["get", "list"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: developer-rollouts
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: developer
subjects:
  - kind: ServiceAccount
    name: developer
`)
	for who, want := range map[string]struct{ ok, unknown []string }{
		"nobody": {
			unknown: []string{"controller-found", "plugin-registered", "rollout-found"},
		},
		"developer": {
			ok:      []string{"rollout-found", "rollout-config", "services-exist", "backends-ready"},
			unknown: []string{"controller-found", "plugin-registered", "httpscaledobject-exists"},
		},
	} {
		t.Run(who, func(t *testing.T) {
			token, err := n.Kube.CoreV1().ServiceAccounts(n.Name).CreateToken(t.Context(), who, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			report, err := checktest.Read(t.Context(), kubeconfigWithToken(t, token.Status.Token), "app", "-n", n.Name)
			if err != nil {
				t.Fatal(err)
			}
			if report.Failed || report.ExitCode != 0 {
				t.Errorf("what may not be seen is reported as a fault, exit code %d:\n%s", report.ExitCode, report)
			}
			for _, check := range want.ok {
				if report.Status(check) != checktest.OK {
					t.Errorf("check %s is %q, want ok:\n%s", check, report.Status(check), report)
				}
			}
			for _, check := range want.unknown {
				if report.Status(check) != checktest.Warning {
					t.Errorf("check %s is %q, want a warning:\n%s", check, report.Status(check), report)
				}
			}
			for _, result := range report.Results {
				if result.Status == checktest.Warning && result.Remedy == "" {
					t.Errorf("no remedy: %+v", result)
				}
			}
		})
	}
}

// kubeconfigWithToken writes a kubeconfig for the sandbox's API server with a
// token in place of the administrator's certificate.
func kubeconfigWithToken(t *testing.T, token string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.ClientCertificate, user.ClientCertificateData = "", nil
		user.ClientKey, user.ClientKeyData = "", nil
		user.Token = token
	}
	path := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
