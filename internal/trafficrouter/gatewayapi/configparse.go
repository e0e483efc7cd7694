package gatewayapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
)

// settings are the keys of a configuration that are not about one kind of route.
type settings struct {
	Namespace                   string   `json:"namespace"`
	Rules                       []string `json:"rules"`
	RuleName                    any      `json:"ruleName"`
	DisableInProgressLabel      bool     `json:"disableInProgressLabel"`
	InProgressLabelKey          string   `json:"inProgressLabelKey"`
	InProgressLabelValue        string   `json:"inProgressLabelValue"`
	ActiveRolloutsAnnotationKey any      `json:"activeRolloutsAnnotationKey"`
	Verification                onOff    `json:"verification"`
	ConfigMap                   any      `json:"configMap"`
}

// listedRoute is one element of a list of routes.
type listedRoute struct {
	Name            string   `json:"name"`
	UseHeaderRoutes bool     `json:"useHeaderRoutes"`
	Rules           []string `json:"rules"`
	RuleName        string   `json:"ruleName"`
}

// onOff is on, off or a boolean: unquoted, YAML reads off as false.
type onOff bool

// UnmarshalJSON refuses all other values. An empty text leaves the value as it is.
func (o *onOff) UnmarshalJSON(raw []byte) error {
	switch got := strings.ToLower(string(raw)); {
	case got == `"on"` || got == "true":
		*o = true
	case got == `"off"` || got == "false":
		*o = false
	case got[0] == '"' && got != `""`:
		return fmt.Errorf("want on or off, got %s", raw)
	case got != `""`:
		return fmt.Errorf("want on or off, got %s", jsontype.Of(raw))
	}
	return nil
}

// ParseConfig reads the configuration of a Rollout in a namespace. Keys are
// matched without regard to case, as in the plugin of argoproj-labs; null and
// empty values count as left out. An unknown key is a warning with the nearest
// known one, because a Rollout must not break when it moves to this plugin. A
// value of a wrong type, an invalid name, label or selector, and a configuration
// without any route are errors that name the key. With an error the Config has the
// warnings, and no route.
func ParseConfig(raw json.RawMessage, namespace string) (Config, error) {
	r, s := &reader{}, settings{Verification: true}
	keys := keysOf(reflect.TypeOf(s))
	for _, kind := range slices.Backward(Kinds) {
		keys = slices.Insert(keys, 1, kind.key(), kind.key()+"s", kind.key()+"Selector", kind.key()+"RuleName")
	}
	fields := r.object(raw, "", keys)
	r.fields(fields, "", reflect.ValueOf(&s).Elem())
	c := Config{Namespace: cmp.Or(s.Namespace, namespace), Verification: bool(s.Verification)}
	if s.Namespace != "" {
		r.valid("namespace", "namespace", s.Namespace, validation.IsDNS1123Label)
	}
	c.Label = r.label(s)
	rules := r.rules("", s.Rules, "")
	for _, kind := range Kinds {
		c.addNamed(r, kind, fields)
		c.addSelected(r, kind, fields[kind.key()+"Selector"], rules)
	}
	for i := range c.Routes {
		if c.Routes[i].Rules == nil {
			c.Routes[i].Rules = rules
		}
	}
	if s.RuleName != nil {
		r.fail("ruleName: write rules, a list, for the rules of all routes, or ruleName beside the name of a route in a list")
	}
	if s.ConfigMap != nil {
		r.warn("configMap is ignored: the plugin keeps what it has to remember in an annotation of the route; take the key out")
	}
	if s.ActiveRolloutsAnnotationKey != nil {
		r.warn("activeRolloutsAnnotationKey is ignored: the label stays until each Rollout of a route is done, without that annotation; take the key out")
	}
	if len(r.failures) == 0 && len(c.Routes)+len(c.Selectors) == 0 {
		r.fail("no route is named: set httpRoute, or list routes under httpRoutes, or select them with httpRouteSelector (or the same keys of grpc, tcp, tls or udp)")
	}
	if len(r.failures) > 0 {
		c = Config{Namespace: namespace, Verification: true}
	}
	c.Warnings, c.UnknownKeys = r.warnings, r.unknown
	return c, errors.Join(r.failures...)
}

// addNamed adds the routes of a kind that are named, with the rules that are theirs alone.
func (c *Config) addNamed(r *reader, kind Kind, fields map[string]json.RawMessage) {
	at, of := kind.key(), "the name of the "+string(kind)
	var name, rule string
	var list []listedRoute
	r.read(fields[at], at, of, reflect.ValueOf(&name).Elem())
	r.read(fields[at+"RuleName"], at+"RuleName", words["ruleName"], reflect.ValueOf(&rule).Elem())
	r.read(fields[at+"s"], at+"s", "a list of {name: …}", reflect.ValueOf(&list).Elem())
	if name != "" {
		r.valid(at, "object name", name, validation.IsDNS1123Subdomain)
		c.add(RouteConfig{kind, name, kind.TakesHeaderRoutes(), r.rules("", nil, rule)})
	} else if rule != "" {
		r.fail("%sRuleName is for %s, which is missing: write ruleName beside the name of a route in %ss, or rules: [%s] for all routes", at, at, at, rule)
	}
	for i, listed := range list {
		at := fmt.Sprintf("%ss[%d]", at, i)
		if listed.Name == "" {
			r.fail("%s.name is missing: want %s", at, of)
			continue
		}
		r.valid(at+".name", "object name", listed.Name, validation.IsDNS1123Subdomain)
		if listed.UseHeaderRoutes && !kind.TakesHeaderRoutes() {
			r.warn("%s.useHeaderRoutes is ignored: a %s has no headers to match", at, kind)
			listed.UseHeaderRoutes = false
		}
		if !c.add(RouteConfig{kind, listed.Name, listed.UseHeaderRoutes, r.rules(at+".", listed.Rules, listed.RuleName)}) {
			r.warn("%s: %s %q is named twice; once is enough", at, kind, listed.Name)
		}
	}
}

// add adds a route. If there is one of that kind and name, it merges the two and
// returns false.
func (c *Config) add(route RouteConfig) bool {
	i := slices.IndexFunc(c.Routes, func(r RouteConfig) bool { return r.Kind == route.Kind && r.Name == route.Name })
	if i < 0 {
		c.Routes = append(c.Routes, route)
		return true
	}
	c.Routes[i].UseHeaderRoutes = c.Routes[i].UseHeaderRoutes || route.UseHeaderRoutes
	c.Routes[i].Rules = append(c.Routes[i].Rules, route.Rules...)
	return false
}

// addSelected adds a selector. An empty one selects all routes of the kind, as everywhere
// in Kubernetes; one that is empty because its keys are unknown is an error, because it
// would select routes that were not meant.
func (c *Config) addSelected(r *reader, kind Kind, raw json.RawMessage, rules []string) {
	at, unknown := kind.key()+"Selector", len(r.unknown)
	var selector *metav1.LabelSelector
	r.read(raw, at, "", reflect.ValueOf(&selector).Elem())
	if selector == nil {
		return
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 && len(r.unknown) > unknown {
		r.fail("%s has no known key and would select every %s of the namespace: want matchLabels or matchExpressions", at, kind)
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		r.fail("%s: %w", at, err)
	}
	c.Selectors = append(c.Selectors, SelectorConfig{kind, parsed, rules})
}

// rules returns the names of rules, each once, under the keys rules and ruleName at a path;
// nil if there are none.
func (r *reader) rules(at string, list []string, one string) []string {
	if one != "" && len(list) > 0 {
		r.fail("%sruleName and %srules exclude each other: put %q into rules", at, at, one)
	} else if one != "" {
		return []string{one}
	}
	var rules []string
	for i, name := range list {
		if name == "" {
			r.fail("%srules[%d] is empty: want one of the names of rules", at, i)
		}
		if !slices.Contains(rules, name) {
			rules = append(rules, name)
		}
	}
	return rules
}

func (r *reader) label(s settings) Label {
	label := Label{cmp.Or(s.InProgressLabelKey, DefaultLabelKey), cmp.Or(s.InProgressLabelValue, DefaultLabelValue)}
	r.valid("inProgressLabelKey", "label key", label.Key, validation.IsQualifiedName)
	r.valid("inProgressLabelValue", "label value", label.Value, validation.IsValidLabelValue)
	if s.DisableInProgressLabel {
		return Label{}
	}
	return label
}

// valid fails if a value breaks a rule of Kubernetes for it.
func (r *reader) valid(at, what, value string, rule func(string) []string) {
	if problems := rule(value); len(problems) > 0 {
		r.fail("%s: %q is no valid %s: %s", at, value, what, strings.Join(problems, "; "))
	}
}
