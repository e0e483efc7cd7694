package check

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/rolloutsstep"
)

// healthyRegions is a cluster whose presets name another one.
func healthyRegions() snapshot {
	s := healthyPresets()
	of := s.stepEntries()[0]
	of.Registration.SecretsNamespace = "argo-rollouts"
	s.steps.regions = []regionSnapshot{{
		entry: of, preset: types.NamespacedName{Namespace: "argo-rollouts", Name: "regions"},
		Cluster: rolloutsstep.Cluster{Name: "eu", Secret: "region-eu"}, from: "in all namespaces",
	}}
	return s
}

// regionsPreset has two clusters.
func regionsPreset() corev1.ConfigMap {
	text := "{defaults: {rollouts: {clusters: [{name: eu, secret: region-eu}, {name: us, secret: region-us}]}}, hosts: [127.0.0.1]}"
	preset := presetMap(text)
	preset.Name = "regions"
	return preset
}

// kubeconfigOf is the Secret with a kubeconfig for a server.
func kubeconfigOf(server *apiservertest.Server, user string) *corev1.Secret {
	text := strings.Replace(server.Kubeconfig(), "user: {}", "user: {"+user+"}", 1)
	text = strings.Replace(text, "cluster: {server", fmt.Sprintf("cluster: {certificate-authority-data: %s, server", base64.StdEncoding.EncodeToString(server.CA())), 1)
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "region-eu", Namespace: "argo-rollouts"}, Data: map[string][]byte{"kubeconfig": []byte(text)}}
}

// The check reads the Secrets that a preset names, and says of each cluster why it cannot be
// read.
func TestRunReadsTheRegions(t *testing.T) {
	const secret = "Secret argo-rollouts/region-eu"
	const is = "is of the cluster eu, which the preset regions names"
	fault := func(answer func(http.ResponseWriter, apiservertest.Request) bool) func(*apiservertest.Server) {
		return func(s *apiservertest.Server) {
			s.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
				return answer(w, request)
			})
		}
	}
	for name, test := range map[string]struct {
		there   func(*apiservertest.Server)
		user    string
		args    string
		without bool // the Secret
		want    Result
	}{
		"read": {want: Result{Status: OK, Object: secret, Message: is + ": its token reads Rollouts there in all namespaces"}},
		"read in the namespace": {there: fault(func(w http.ResponseWriter, request apiservertest.Request) bool {
			if request.Namespace == "" {
				apiservertest.Forbidden(w, request)
			}
			return request.Namespace == ""
		}), want: Result{Status: OK, Object: secret, Message: "its token reads Rollouts there in namespace shop"}},
		"not listed": {there: fault(func(w http.ResponseWriter, request apiservertest.Request) bool {
			apiservertest.Forbidden(w, request)
			return true
		}), want: Result{Status: Failure, Object: secret, Message: is + ", and steps cannot read that: rollouts is forbidden: cannot list", Remedy: "apply deploy/rbac-regions/region.yaml"}},
		"not watched": {there: fault(func(w http.ResponseWriter, request apiservertest.Request) bool {
			if request.Verb == "watch" {
				apiservertest.Forbidden(w, request)
			}
			return request.Verb == "watch"
		}), want: Result{Status: Failure, Object: secret, Message: "rollouts is forbidden: cannot watch", Remedy: "deploy/rbac-regions/region.yaml"}},
		"revoked": {there: fault(func(w http.ResponseWriter, request apiservertest.Request) bool {
			apiservertest.Unauthorized(w, request)
			return true
		}), want: Result{Status: Failure, Object: secret, Message: "its API server does not accept the credentials (401)", Remedy: "put a kubeconfig with another token there"}},
		"down": {there: fault(func(w http.ResponseWriter, request apiservertest.Request) bool {
			apiservertest.Fail(w, http.StatusServiceUnavailable, request)
			return true
		}), want: Result{Status: Warning, Object: secret, Message: is + ", and from here that does not answer: ", Remedy: "the controller may reach it"}},
		"refused":           {user: "exec: {command: aws}", want: Result{Status: Failure, Object: secret, Message: is + ", and steps cannot read that: kubeconfig: user test: exec: the plugin runs no program", Remedy: "docs/how-to/step-rollouts.md has the commands"}},
		"a refused address": {args: "--secrets-namespace=argo-rollouts", want: Result{Status: Failure, Object: secret, Message: "the address 127.0.0.1 is not allowed (loopback)"}},
		"no Secret":         {without: true, want: Result{Status: Failure, Object: secret, Message: "it does not exist"}},
		"no namespace":      {args: "--allow-host=a", want: Result{Status: Failure, Object: configMap, Message: "kedify/step: the preset regions names the cluster eu, and no namespace has its Secret region-eu", Remedy: "add --secrets-namespace=NAMESPACE to its args"}},
	} {
		t.Run(name, func(t *testing.T) {
			there := apiservertest.NewTLS(t)
			if test.there != nil {
				test.there(there)
			}
			if test.user == "" {
				test.user = "token: secret-token"
			}
			if test.args == "" {
				test.args = "--secrets-namespace=argo-rollouts, --allow-address=127.0.0.1"
			}
			s := healthySteps()
			s.configData()[stepPlugins] = `[{name: kedify/step, location: "` + stepLocation + `", sha256: ` + sum + `, args: [` + test.args + `]}]`
			s.setSteps("[{plugin: {name: kedify/step, config: {use: regions}}}]")
			a := serve(t, s)
			a.more = map[string]any{"/api/v1/namespaces/argo-rollouts/configmaps": map[string]any{"items": []any{regionsPreset()}}}
			if !test.without {
				a.more["/api/v1/namespaces/argo-rollouts/secrets/region-eu"] = kubeconfigOf(there, test.user)
			}
			report := runOn(t, a, Options{Namespace: "shop"})
			if !slices.ContainsFunc(report.Results, func(r Result) bool {
				return r.Check == "step-plugin-regions" && r.Status == test.want.Status && r.Object == test.want.Object &&
					strings.Contains(r.Message, test.want.Message) && strings.Contains(r.Remedy, test.want.Remedy)
			}) {
				t.Errorf("%+v\nis not among\n%+v", test.want, report.Results)
			}
			for _, r := range report.Results {
				if strings.Contains(r.Message+r.Remedy, "secret-token") {
					t.Errorf("the report shows the token: %+v", r)
				}
			}
		})
	}
}
