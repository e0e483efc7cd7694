package rolloutsstep

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/apiservertest"
)

func base64Of(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

// A Secret that is refused is named with the key, and its cluster gets no request. Once the
// Secret is mended, the region answers.
func TestSecretsThatAreRefused(t *testing.T) {
	const of = "Secret argo-rollouts/region-eu: "
	kubeconfig := func(old, new string) func(*twoClusters) map[string][]byte {
		return func(c *twoClusters) map[string][]byte {
			text := string(c.kubeconfig("token-1", "")["kubeconfig"])
			if !strings.Contains(text, old) {
				t.Fatalf("%s is not in %s", old, text)
			}
			return map[string][]byte{"kubeconfig": []byte(strings.Replace(text, old, new, 1))}
		}
	}
	user := func(keys string) func(*twoClusters) map[string][]byte {
		return kubeconfig("user: {token: token-1}", "user: {"+keys+"}")
	}
	cluster := func(keys string) func(*twoClusters) map[string][]byte {
		return kubeconfig("cluster: {", "cluster: {"+keys+", ")
	}
	argoCD := func(config string) func(*twoClusters) map[string][]byte {
		return func(c *twoClusters) map[string][]byte {
			return map[string][]byte{"server": []byte(c.there.URL()), "config": []byte(config)}
		}
	}
	for name, test := range map[string]struct {
		data func(*twoClusters) map[string][]byte
		want string
	}{
		"exec":                     {user("exec: {command: aws}"), of + "kubeconfig: user test: exec: the plugin runs no program: make a token in that cluster"},
		"auth-provider":            {user("auth-provider: {name: gcp}"), of + "kubeconfig: user test: auth-provider gcp: "},
		"a file with a token":      {user("tokenFile: /token"), of + "kubeconfig: user test: tokenFile: the plugin reads no files: put its content under token"},
		"a file with certificates": {user("client-certificate: /crt, client-key: /key"), of + "kubeconfig: user test: client-certificate: the plugin reads no files"},
		"impersonation":            {user("token: token-1, as: admin"), of + "kubeconfig: user test: as (impersonation): "},
		"a password":               {user("username: a, password: b"), of + "kubeconfig: user test: username and password: "},
		"no credentials":           {user(""), of + "kubeconfig: it has no credentials"},
		"unverified TLS":           {cluster("insecure-skip-tls-verify: true"), of + "kubeconfig: cluster test: insecure-skip-tls-verify: "},
		"a file with an authority": {cluster("certificate-authority: /ca"), of + "kubeconfig: cluster test: certificate-authority: the plugin reads no files"},
		"another certificate":      {cluster("tls-server-name: eu.example.org"), "its certificate is none by the CA of Secret argo-rollouts/region-eu, for the host there: put the API server's CA and host there: x509: certificate is valid for"},
		"a proxy":                  {cluster("proxy-url: http://proxy"), of + "kubeconfig: cluster test: proxy-url: "},
		"http":                     {kubeconfig("https://", "http://"), of + "kubeconfig: cluster test: server: http://127.0.0.1"},
		"another host":             {kubeconfig("https://127.0.0.1", "https://localhost"), `host "localhost`},
		"no kubeconfig":            {func(*twoClusters) map[string][]byte { return map[string][]byte{"password": nil} }, of + "it has no kubeconfig"},
		"Argo CD's exec":           {argoCD(`{"execProviderConfig": {"command": "argocd-k8s-auth"}}`), of + "config: execProviderConfig: "},
		"Argo CD's AWS":            {argoCD(`{"awsAuthConfig": {"clusterName": "eu"}}`), of + "config: awsAuthConfig: "},
		"Argo CD's unverified TLS": {argoCD(`{"bearerToken": "token-1", "tlsClientConfig": {"insecure": true}}`), of + "config: tlsClientConfig.insecure: "},
		"Argo CD's proxy":          {argoCD(`{"bearerToken": "token-1", "proxyUrl": "http://proxy"}`), of + "config: proxyUrl: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTwoClusters(t)
			c.rollout("demo", "a", "one")
			c.secret(test.data(c))
			got := c.view("demo")
			if !strings.HasPrefix(got.Unreachable, test.want) || got.Since.IsZero() {
				t.Errorf("unreachable since %s: %s\nwant %s", got.Since, got.Unreachable, test.want)
			}
			if strings.Contains(got.Unreachable, "token-1") {
				t.Errorf("the reason shows a token: %s", got.Unreachable)
			}
			if again := c.view("demo"); again.Since != got.Since {
				t.Errorf("since %s, and later since %s", got.Since, again.Since)
			}
			if got := requests(c.there); got != "" {
				t.Errorf("the region had %q", got)
			}
			c.secret(c.kubeconfig("token-1", ""))
			c.await("demo/a one", "demo")
		})
	}
}

func TestSecretOfArgoCDIsTaken(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.secret(map[string][]byte{
		"name": []byte("eu"), "server": []byte(c.there.URL()),
		"config": []byte(`{"bearerToken": "token-1", "tlsClientConfig": {"caData": "` + base64Of(c.there.CA()) + `"}}`),
	})
	if v := c.view("demo"); text(v) != "demo/a one" {
		t.Errorf("the view is %q", text(v))
	}
}

// A Secret that is deleted takes the access away, and what was seen stays known.
func TestSecretThatIsDeleted(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	c.here.Delete("secrets", "argo-rollouts", "region-eu")
	c.await("demo/a one; unreachable: Secret argo-rollouts/region-eu does not exist: create it", "demo")
	c.secret(c.kubeconfig("token-1", ""))
	c.await("demo/a one", "demo")
}

func TestSecretThatMayNotBeRead(t *testing.T) {
	c := newTwoClusters(t)
	c.here.SetFault(func(w http.ResponseWriter, _ *http.Request, request apiservertest.Request) bool {
		apiservertest.Forbidden(w, request)
		return true
	})
	const want = "Secret argo-rollouts/region-eu cannot be read: grant the controller list and watch of it (deploy/rbac-regions/secrets.yaml): secrets is forbidden"
	if v := c.view("demo"); !strings.HasPrefix(v.Unreachable, want) {
		t.Errorf("unreachable: %s\nwant %s", v.Unreachable, want)
	}
}

// Another Secret of the namespace is not seen: a Role that names one is enough.
func TestSecretIsWatchedByItsName(t *testing.T) {
	c := newTwoClusters(t)
	var selectors []string
	c.here.SetFault(func(_ http.ResponseWriter, r *http.Request, _ apiservertest.Request) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		selectors = append(selectors, r.URL.Query().Get("fieldSelector"))
		return false
	})
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := strings.Join(selectors, " "); got != "metadata.name=region-eu metadata.name=region-eu" {
		t.Errorf("the field selectors are %q", got)
	}
}

// Hosts are those of one preset: another preset's do not count for it.
func TestHostsAreThoseOfThePreset(t *testing.T) {
	c := newTwoClusters(t)
	c.rollout("demo", "a", "one")
	c.await("demo/a one", "demo")
	v := c.regions.view(t.Context(), eu, []string{"eu.example.com"}, []string{"demo"})
	if !strings.Contains(v.Unreachable, "is not allowed: an admin allows hosts where the plugin is registered") || len(v.Rollouts) > 0 {
		t.Errorf("the view of a preset with other hosts is %q", text(v))
	}
	unset := newRegions(Options{Connect: c.here.Config})
	if v := unset.view(t.Context(), eu, nil, []string{"demo"}); !strings.Contains(v.Unreachable, "without --secrets-namespace") {
		t.Errorf("unreachable: %s", v.Unreachable)
	}
}
