package gatewayapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// config is Config as a test writes it: with selectors as text.
type config struct {
	Namespace string
	Routes    []RouteConfig
	Selectors []string
	Label     Label
	Off       bool // Verification: off
	Warnings  []string
}

func asWritten(c Config) config {
	w := config{Namespace: c.Namespace, Routes: c.Routes, Label: c.Label, Off: !c.Verification, Warnings: c.Warnings}
	for _, s := range c.Selectors {
		w.Selectors = append(w.Selectors, strings.Join(append([]string{string(s.Kind), s.Selector.String()}, s.Rules...), " "))
	}
	return w
}

var defaultLabel = Label{"rollouts.argoproj.io/gatewayapi-canary", "in-progress"}

func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		raw  string
		want config
	}{
		"one route takes header routes": {
			`{"httpRoute": "app"}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "app", UseHeaderRoutes: true}}},
		},
		"namespace": {
			`{"httpRoute": "app", "namespace": "routes"}`,
			config{Namespace: "routes", Routes: []RouteConfig{{Kind: HTTPRoute, Name: "app", UseHeaderRoutes: true}}},
		},
		"every kind": {
			`{"httpRoute": "a", "grpcRoute": "b", "tcpRoute": "c", "tlsRoute": "d", "udpRoute": "e"}`,
			config{Routes: []RouteConfig{
				{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}, {Kind: GRPCRoute, Name: "b", UseHeaderRoutes: true},
				{Kind: TCPRoute, Name: "c"}, {Kind: TLSRoute, Name: "d"}, {Kind: UDPRoute, Name: "e"},
			}},
		},
		"a list takes header routes where it says so": {
			`{"httpRoutes": [{"name": "a", "useHeaderRoutes": true}, {"name": "b"}], "udpRoutes": [{"name": "c"}]}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}, {Kind: HTTPRoute, Name: "b"}, {Kind: UDPRoute, Name: "c"}}},
		},
		"a route named twice is one route": {
			`{"httpRoute": "a", "httpRoutes": [{"name": "a"}]}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}},
				Warnings: []string{`httpRoutes[0]: HTTPRoute "a" is named twice; once is enough`},
			},
		},
		"keys in another case, at every level that is ours": {
			`{"HTTPROUTES": [{"NAME": "a", "useheaderroutes": true, "Rules": ["x"]}], "grpcrouteselector": {"matchlabels": {"App": "A"}}, "InProgressLabelValue": "yes"}`,
			config{
				Routes:    []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true, Rules: []string{"x"}}},
				Selectors: []string{"GRPCRoute App=A"},
				Label:     Label{DefaultLabelKey, "yes"},
			},
		},
		"one key in two spellings": {
			`{"httproute": "a", "httpRoute": "b"}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "b", UseHeaderRoutes: true}},
				Warnings: []string{`key "httproute" is ignored: "httpRoute" is there, too, in another spelling`},
			},
		},
		"selectors take no header routes": {
			`{"rules": ["r"], "tlsRouteSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}, "udpRouteSelector": {}}`,
			config{Selectors: []string{"TLSRoute a=b,k in (v,w) r", "UDPRoute  r"}},
		},
		"rules of all routes, and of one": {
			`{"rules": ["x", "x", "y"], "httpRoute": "a", "httpRoutes": [{"name": "b"}, {"name": "c", "rules": ["z"]}]}`,
			config{Routes: []RouteConfig{
				{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true, Rules: []string{"x", "y"}},
				{Kind: HTTPRoute, Name: "b", Rules: []string{"x", "y"}},
				{Kind: HTTPRoute, Name: "c", Rules: []string{"z"}},
			}},
		},
		"ruleName of a route in a list": {
			`{"rules": ["x"], "httpRoutes": [{"name": "a", "ruleName": "argo"}, {"name": "b", "ruleName": null}], "tlsRoutes": [{"NAME": "c", "RULENAME": "tls"}]}`,
			config{Routes: []RouteConfig{
				{Kind: HTTPRoute, Name: "a", Rules: []string{"argo"}}, {Kind: HTTPRoute, Name: "b", Rules: []string{"x"}}, {Kind: TLSRoute, Name: "c", Rules: []string{"tls"}},
			}},
		},
		"the rule of one route of each kind": {
			`{"httpRoute": "a", "httpRouteRuleName": "A", "grpcRoute": "b", "grpcRouteRuleName": "B", "tcpRoute": "c", "tcpRouteRuleName": "C", "tlsRoute": "d", "tlsRouteRuleName": "D", "udpRoute": "e", "udpRouteRuleName": "E"}`,
			config{Routes: []RouteConfig{
				{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true, Rules: []string{"A"}}, {Kind: GRPCRoute, Name: "b", UseHeaderRoutes: true, Rules: []string{"B"}},
				{Kind: TCPRoute, Name: "c", Rules: []string{"C"}}, {Kind: TLSRoute, Name: "d", Rules: []string{"D"}}, {Kind: UDPRoute, Name: "e", Rules: []string{"E"}},
			}},
		},
		"a rule named at one of two places of a route": {
			`{"httpRoute": "a", "httpRouteRuleName": "x", "httpRoutes": [{"name": "a"}, {"name": "b", "rules": ["y"]}, {"name": "b", "ruleName": "z"}]}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true, Rules: []string{"x"}}, {Kind: HTTPRoute, Name: "b", Rules: []string{"y", "z"}}},
				Warnings: []string{`httpRoutes[0]: HTTPRoute "a" is named twice; once is enough`, `httpRoutes[2]: HTTPRoute "b" is named twice; once is enough`},
			},
		},
		"the annotation of Rollouts that share a route": {
			`{"httpRoute": "a", "activeRolloutsAnnotationKey": "rollouts.argoproj.io/gatewayapi-active-rollouts"}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}},
				Warnings: []string{"activeRolloutsAnnotationKey is ignored: the label stays until each Rollout of a route is done, without that annotation; take the key out"},
			},
		},
		"another label": {
			`{"httpRoute": "a", "inProgressLabelKey": "example.com/canary", "inProgressLabelValue": "on"}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}}, Label: Label{"example.com/canary", "on"}},
		},
		"empty values are left out": {
			`{"httpRoute": "a", "grpcRoute": "", "namespace": "", "tcpRoutes": [], "tlsRoutes": null, "udpRouteSelector": null, "inProgressLabelKey": "", "verification": "", "rules": []}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}}},
		},
		"unknown keys": {
			`{"httpRoute": "a", "httpRouts": "b", "httpRoutes": [{"name": "c", "useHeaders": true}]}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}, {Kind: HTTPRoute, Name: "c"}},
				Warnings: []string{`unknown key "httpRouts" is ignored: did you mean "httpRoute"?`, `unknown key "httpRoutes[0].useHeaders" is ignored: did you mean "httpRoutes[0].useHeaderRoutes"?`},
			},
		},
		"the ConfigMap of older versions": {
			`{"httpRoute": "a", "configMap": "state"}`,
			config{
				Routes:   []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}},
				Warnings: []string{"configMap is ignored: the plugin keeps what it has to remember in an annotation of the route; take the key out"},
			},
		},
		"header routes on a kind without headers": {
			`{"tcpRoutes": [{"name": "a", "useHeaderRoutes": true}]}`,
			config{
				Routes:   []RouteConfig{{Kind: TCPRoute, Name: "a"}},
				Warnings: []string{"tcpRoutes[0].useHeaderRoutes is ignored: a TCPRoute has no headers to match"},
			},
		},
		"verification off": {
			`{"httpRoute": "a", "verification": "Off"}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}}, Off: true},
		},
		"verification off, as YAML reads it": {
			`{"httpRoute": "a", "verification": false}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}}, Off: true},
		},
		"verification on": {
			`{"httpRoute": "a", "verification": true}`,
			config{Routes: []RouteConfig{{Kind: HTTPRoute, Name: "a", UseHeaderRoutes: true}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.want.Namespace == "" {
				tc.want.Namespace = "demo"
			}
			if tc.want.Label == (Label{}) {
				tc.want.Label = defaultLabel
			}
			got, err := ParseConfig(json.RawMessage(tc.raw), "demo")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, asWritten(got)); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigDisablesTheLabel(t *testing.T) {
	got, err := ParseConfig(json.RawMessage(`{"httpRoute": "a", "disableInProgressLabel": true, "inProgressLabelKey": "k"}`), "demo")
	if err != nil || got.Label != (Label{}) {
		t.Errorf("label %v, error %v, want none", got.Label, err)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"no object":              {`"app"`, "the configuration: want an object with namespace, httpRoute, httpRoutes, got a string"},
		"null":                   {`null`, "the configuration: want an object with namespace, httpRoute, httpRoutes, got null"},
		"no JSON":                {`{`, "got no valid JSON"},
		"no route":               {`{}`, "no route is named: set httpRoute, or list routes under httpRoutes, or select them with httpRouteSelector"},
		"only an unknown key":    {`{"htpRoute": "a"}`, "no route is named"},
		"route of a wrong type":  {`{"httpRoute": {"name": "a"}}`, "httpRoute: want the name of the HTTPRoute, got an object"},
		"list of names":          {`{"httpRoutes": ["a"]}`, "httpRoutes[0]: want an object with name, useHeaderRoutes, rules, got a string"},
		"object for a list":      {`{"httpRoutes": {"name": "a"}}`, "httpRoutes: want a list of {name: …}, got an object"},
		"entry without name":     {`{"grpcRoutes": [{"useHeaderRoutes": true}]}`, "grpcRoutes[0].name is missing: want the name of the GRPCRoute"},
		"header routes as text":  {`{"httpRoutes": [{"name": "a", "useHeaderRoutes": "yes"}]}`, "httpRoutes[0].useHeaderRoutes: want true or false, got a string"},
		"name":                   {`{"httpRoute": "App"}`, `httpRoute: "App" is no valid object name`},
		"namespace":              {`{"httpRoute": "a", "namespace": "a.b"}`, `namespace: "a.b" is no valid namespace`},
		"rule of a wrong type":   {`{"httpRoute": "a", "rules": [1]}`, "rules[0]: want one of the names of rules, got a number"},
		"rules of a wrong type":  {`{"httpRoute": "a", "rules": "x"}`, "rules: want a list of the names of rules, got a string"},
		"empty rule":             {`{"httpRoutes": [{"name": "a", "rules": [""]}]}`, "httpRoutes[0].rules[0] is empty"},
		"ruleName and rules":     {`{"httpRoutes": [{"name": "a", "rules": ["x"], "ruleName": "y"}]}`, `httpRoutes[0].ruleName and httpRoutes[0].rules exclude each other: put "y" into rules`},
		"ruleName of all routes": {`{"httpRoute": "a", "ruleName": "x"}`, "ruleName: write rules, a list, for the rules of all routes, or ruleName beside the name of a route in a list"},
		"ruleName of no route":   {`{"httpRoutes": [{"name": "a"}], "httpRouteRuleName": "x"}`, "httpRouteRuleName is for httpRoute, which is missing: write ruleName beside the name of a route in httpRoutes, or rules: [x] for all routes"},
		"ruleName of wrong type": {`{"httpRoutes": [{"name": "a", "ruleName": ["x"]}]}`, "httpRoutes[0].ruleName: want the name of a rule, got a list"},
		"RuleName of wrong type": {`{"httpRoute": "a", "httpRouteRuleName": 1}`, "httpRouteRuleName: want the name of a rule, got a number"},
		"several":                {`{"httpRoute": 1, "tcpRoute": "B"}`, "httpRoute: want the name of the HTTPRoute, got a number\ntcpRoute: \"B\" is no valid object name"},
		"label key":              {`{"httpRoute": "a", "inProgressLabelKey": "a/b/c"}`, `inProgressLabelKey: "a/b/c" is no valid label key`},
		"label value":            {`{"httpRoute": "a", "inProgressLabelValue": "a b"}`, `inProgressLabelValue: "a b" is no valid label value`},
		"label disabled as text": {`{"httpRoute": "a", "disableInProgressLabel": "true"}`, "disableInProgressLabel: want true or false, got a string"},
		"verification":           {`{"httpRoute": "a", "verification": "never"}`, `verification: want on or off, got "never"`},
		"verification as number": {`{"httpRoute": "a", "verification": 0}`, "verification: want on or off, got a number"},
		"selector as text":       {`{"httpRouteSelector": "app=a"}`, "httpRouteSelector: want an object with matchLabels, matchExpressions, got a string"},
		"label of a wrong type":  {`{"httpRouteSelector": {"matchLabels": {"a": 1}}}`, "httpRouteSelector.matchLabels: want an object of strings"},
		"operator":               {`{"httpRouteSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}`, `httpRouteSelector: "Is" is not a valid label selector operator`},
		"values":                 {`{"httpRouteSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}}`, "httpRouteSelector.matchExpressions[0].values[0]: want the value of a label, got a number"},
		"selector value":         {`{"httpRouteSelector": {"matchLabels": {"a": "x y"}}}`, "httpRouteSelector: "},
		"selector of unknown keys": {
			`{"tcpRouteSelector": {"matchLabel": {"a": "b"}}}`,
			"tcpRouteSelector has no known key and would select every TCPRoute of the namespace: want matchLabels or matchExpressions",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig(json.RawMessage(tc.raw), "demo")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestConfigOf(t *testing.T) {
	canary := func(plugins string) *v1alpha1.Rollout {
		ro := &v1alpha1.Rollout{}
		ro.Namespace = "demo"
		ro.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{TrafficRouting: &v1alpha1.RolloutTrafficRouting{}}
		if err := json.Unmarshal([]byte(plugins), &ro.Spec.Strategy.Canary.TrafficRouting.Plugins); err != nil {
			t.Fatal(err)
		}
		return ro
	}
	tests := map[string]struct {
		rollout       *v1alpha1.Rollout
		want, warning string
	}{
		"no canary":      {&v1alpha1.Rollout{}, "spec.strategy.canary is missing", ""},
		"another plugin": {canary(`{"kedify/http": {"httpRoute": "a"}}`), `spec.strategy.canary.trafficRouting.plugins["my/name"] is missing: set httpRoute there`, ""},
		"error":          {canary(`{"my/name": {"httpRoute": 1}}`), `spec.strategy.canary.trafficRouting.plugins["my/name"]: httpRoute: want the name of the HTTPRoute, got a number`, ""},
		"warning":        {canary(`{"my/name": {"httpRoute": "a", "rule": []}}`), "", `spec.strategy.canary.trafficRouting.plugins["my/name"]: unknown key "rule" is ignored: did you mean "rules"?`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := ConfigOf(tc.rollout, "my/name")
			if message := errorText(err); !strings.HasPrefix(message, tc.want) || (tc.want == "") != (err == nil) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if warnings := strings.Join(config.Warnings, "\n"); warnings != tc.warning {
				t.Errorf("warnings %q, want %q", warnings, tc.warning)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParseConfig checks that an accepted configuration can be used: names, a label and
// selectors that the API server accepts.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"httpRoute": "app", "namespace": "x", "rules": ["a"]}`))
	f.Add([]byte(`{"HTTPROUTES": [{"NAME": "a", "useheaderroutes": true}], "grpcRouteSelector": {"matchLabels": {"a": "b"}}}`))
	f.Add([]byte(`{"udpRouteSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "verification": "off"}`))
	f.Add([]byte(`{"httpRoute": "a", "httpRouteRuleName": "x", "tcpRoutes": [{"name": "a", "ruleName": "y"}], "ruleName": null}`))
	f.Add([]byte(`{"httpRoute": "a", "inProgressLabelKey": "k", "disableInProgressLabel": false, "configMap": {}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw, "demo")
		if err != nil {
			return
		}
		if c.Namespace == "" || len(c.Routes)+len(c.Selectors) == 0 {
			t.Errorf("no namespace or no route in %+v", c)
		}
		seen := map[string]bool{}
		for _, r := range c.Routes {
			if r.Name == "" || !r.Kind.known() || seen[string(r.Kind)+r.Name] || r.UseHeaderRoutes && !r.Kind.TakesHeaderRoutes() {
				t.Errorf("route %+v", r)
			}
			seen[string(r.Kind)+r.Name] = true
		}
		for _, s := range c.Selectors {
			if s.Selector == nil {
				t.Errorf("selector of %s is nil", s.Kind)
				continue
			}
			if _, err := labels.Parse(s.Selector.String()); err != nil {
				t.Errorf("selector %q: %v", s.Selector, err)
			}
		}
	})
}
