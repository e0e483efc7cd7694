package registration

import (
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/rolloutsplugin"
)

var kinds = []string{"http", "job", "resource", "rollouts"}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want Registration
	}{
		"a kind alone": {[]string{"job"}, Registration{Kind: "job"}},
		"all flags of http": {
			[]string{"http", "--preset=argo-rollouts/e2e", "--allow-host=ci.example.com", "--allow-host", "*.example.com:8443", "--allow-host=[::1]:80",
				"--allow-address=127.0.0.1", "--allow-address=10.1.2.3/8", "--secrets-namespace=ci", "--log-level=debug", "--log-format=text", "--name=acme/e2e"},
			Registration{
				Kind: "http", Preset: types.NamespacedName{Namespace: "argo-rollouts", Name: "e2e"}, AllowHosts: []string{"ci.example.com", "*.example.com:8443", "[::1]:80"},
				AllowAddresses:   []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")},
				SecretsNamespace: "ci", Name: "acme/e2e",
				Flags: rolloutsplugin.Flags{LogLevel: "debug", LogFormat: "text"},
			},
		},
		"all flags of rollouts": {
			[]string{"rollouts", "--allow-namespace=team-a", "--allow-namespace=*", "--watch-namespace", "demo", "--allow-host=eu.example.com", "--secrets-namespace=argo-rollouts"},
			Registration{Kind: "rollouts", AllowNamespaces: []string{"team-a", "*"}, AllowHosts: []string{"eu.example.com"}, SecretsNamespace: "argo-rollouts", Flags: rolloutsplugin.Flags{WatchNamespace: "demo", LogLevel: "info", LogFormat: "json"}},
		},
		"other clusters": {
			[]string{"rollouts", "--allow-host=eu.example.com:6443", "--secrets-namespace=ci"},
			Registration{Kind: "rollouts", AllowHosts: []string{"eu.example.com:6443"}, SecretsNamespace: "ci"},
		},
		"all flags of resource": {
			[]string{"resource", "--allow-resource=workflows.argoproj.io", "--allow-resource=TestRun.k6.io", "--allow-resource=ConfigMap"},
			Registration{Kind: "resource", AllowResources: []GroupKind{{"workflows", "argoproj.io"}, {"testrun", "k6.io"}, {"configmap", ""}}},
		},
		"flags before the kind": {[]string{"--preset", "a/b", "rollouts"}, Registration{Kind: "rollouts", Preset: types.NamespacedName{Namespace: "a", Name: "b"}}},
		"no kind":               {nil, Registration{}},
		"all flags without a kind": {
			[]string{"--allow-kind=http", "--allow-kind=rollouts", "--allow-host=a", "--allow-namespace=b", "--presets-namespace=c", "--egress-proxy=http://proxy:3128", "--watch-namespace=d"},
			Registration{
				AllowKinds: []string{"http", "rollouts"}, AllowHosts: []string{"a"}, AllowNamespaces: []string{"b"}, PresetsNamespace: "c", EgressProxy: &url.URL{Scheme: "http", Host: "proxy:3128"},
				Flags: rolloutsplugin.Flags{WatchNamespace: "d", LogLevel: "info", LogFormat: "json"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want.LogLevel == "" {
				tc.want.LogLevel, tc.want.LogFormat = "info", "json"
			}
			got, err := Parse(tc.args, kinds)
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return reflect.DeepEqual(a, b) })); diff != "" || err != nil {
				t.Errorf("%v\n(-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a preset, no kind":     {[]string{"--preset=a/b"}, "--preset does nothing for a registration without a kind: take it away"},
		"unknown kind of own":   {[]string{"--allow-kind=htpp"}, `--allow-kind "htpp": want one of http, job, resource, rollouts; did you mean http?`},
		"kinds of a kind":       {[]string{"http", "--allow-kind=http"}, "--allow-kind does nothing for steps of the kind http"},
		"presets of a kind":     {[]string{"job", "--presets-namespace=a"}, "--presets-namespace does nothing for steps of the kind job"},
		"presets namespace":     {[]string{"--presets-namespace=a,b"}, `--presets-namespace "a,b": want the name of one namespace`},
		"proxy":                 {[]string{"--egress-proxy=ftp://user:secret@x"}, "--egress-proxy: no URL of a proxy"},
		"preset in a file":      {[]string{"http", "--preset=/etc/preset.yaml"}, `--preset "/etc/preset.yaml": want namespace/name of a ConfigMap`},
		"unknown kind":          {[]string{"htpp"}, `kind "htpp" is not known: want one of http, job, resource, rollouts; did you mean http?`},
		"programs":              {[]string{"exec"}, `kind "exec": no step runs a program in the controller's pod, whose token reads all Secrets and whose image has no programs. Run it in a Job: {"job":{"template":`},
		"messages":              {[]string{"notify", "--allow-host=x"}, `kind "notify": a message is a request to a chat, which an admin can make a preset (use: <name>): {"http":{"request":`},
		"programs of Rollouts":  {[]string{"--allow-kind=exec"}, `--allow-kind "exec": no step runs a program`},
		"resources of http":     {[]string{"http", "--allow-resource=workflows.argoproj.io"}, "--allow-resource does nothing for steps of the kind http"},
		"resources of job":      {[]string{"job", "--allow-resource=workflows.argoproj.io"}, "--allow-resource does nothing for steps of the kind job"},
		"hosts of resources":    {[]string{"resource", "--allow-host=a"}, "--allow-host does nothing for steps of the kind resource"},
		"RBAC":                  {[]string{"--allow-resource=RoleBinding.rbac.authorization.k8s.io"}, `objects of rbac.authorization.k8s.io give rights: who edits a Rollout would then have all those of the controller`},
		"RBAC of OpenShift":     {[]string{"--allow-resource=roles.authorization.openshift.io"}, "give rights"},
		"all resources":         {[]string{"--allow-resource=*"}, `--allow-resource "*": want one kind of object with its API group, such as workflows.argoproj.io`},
		"all of a group":        {[]string{"--allow-resource=*.argoproj.io"}, `--allow-resource "*.argoproj.io": want one kind`},
		"two resources":         {[]string{"--allow-resource=a.example.com,b.example.com"}, "want one kind of object"},
		"a version":             {[]string{"--allow-resource=argoproj.io/v1alpha1/Workflow"}, "want one kind of object"},
		"a subcommand":          {[]string{"version"}, `kind "version" is not known`},
		"help":                  {[]string{"http", "--help"}, "--help: a registration has flags alone"},
		"one item":              {[]string{"http --preset a/b"}, `argument "http --preset a/b" has spaces: each argument is an item of its own`},
		"two kinds":             {[]string{"http", "job"}, `argument "job": want one kind`},
		"unknown flag":          {[]string{"http", "--alow-host=x"}, "unknown flag: --alow-host: did you mean --allow-host?"},
		"unknown shorthand":     {[]string{"http", "-p", "x"}, "unknown shorthand flag: 'p' in -p"},
		"no value":              {[]string{"http", "--preset"}, "flag needs an argument: --preset"},
		"preset, no slash":      {[]string{"http", "--preset=e2e"}, `--preset "e2e": want namespace/name of a ConfigMap`},
		"preset, two slashes":   {[]string{"http", "--preset=a/b/c"}, `--preset "a/b/c"`},
		"preset, upper case":    {[]string{"http", "--preset=Argo/e2e"}, `--preset "Argo/e2e"`},
		"preset, parent":        {[]string{"http", "--preset=../e2e"}, `--preset "../e2e"`},
		"host with scheme":      {[]string{"http", "--allow-host=https://ci.example.com"}, `--allow-host "https://ci.example.com": want a host without scheme`},
		"host with path":        {[]string{"http", "--allow-host=ci.example.com/x"}, "--allow-host"},
		"two hosts":             {[]string{"http", "--allow-host=a.example.com,b.example.com"}, "--allow-host"},
		"all hosts":             {[]string{"http", "--allow-host=*"}, "--allow-host"},
		"port out of range":     {[]string{"http", "--allow-host=a:70000"}, "--allow-host"},
		"empty host":            {[]string{"http", "--allow-host="}, "--allow-host"},
		"address":               {[]string{"http", "--allow-address=localhost"}, `--allow-address "localhost": want an address or a CIDR`},
		"zone":                  {[]string{"http", "--allow-address=fe80::1%eth0"}, "--allow-address"},
		"secrets namespace":     {[]string{"http", "--secrets-namespace=a,b"}, `--secrets-namespace "a,b"`},
		"allowed namespace":     {[]string{"rollouts", "--allow-namespace=a,b"}, `--allow-namespace "a,b": want the name of one namespace, or *`},
		"watch namespace":       {[]string{"rollouts", "--watch-namespace=a,b"}, `--watch-namespace "a,b"`},
		"host for a Job":        {[]string{"job", "--allow-host=ci.example.com"}, "--allow-host does nothing for steps of the kind job: take it away"},
		"watch of no watch":     {[]string{"http", "--watch-namespace=demo"}, "--watch-namespace does nothing for steps of the kind http"},
		"Secrets of a Job":      {[]string{"job", "--secrets-namespace=ci"}, "--secrets-namespace does nothing for steps of the kind job"},
		"resources of rollouts": {[]string{"rollouts", "--allow-resource=a.example.com"}, "--allow-resource does nothing for steps of the kind rollouts"},
		"log level":             {[]string{"http", "--log-level=loud"}, `--log-level "loud"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.args, kinds)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	_, err := Parse([]string{"htpp", "--preset=e2e"}, kinds)
	for _, want := range []string{`"htpp"`, `"e2e"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want all that is wrong, %s too", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("http --preset=a/b --allow-host=x:1 --allow-address=::1/64")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(strings.Fields(text), kinds)
		if err == nil && r.Kind == "" && r.Preset.Name != "" {
			t.Errorf("%q: a preset without a kind", text)
		}
	})
}
