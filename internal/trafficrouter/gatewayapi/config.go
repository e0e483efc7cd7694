package gatewayapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/jsontype"
)

// DefaultPluginName is the name under which the plugin is registered in
// argo-rollouts-config, unless another is chosen.
const DefaultPluginName = "argoproj-labs/gatewayAPI"

// The label that a route carries while it is not at rest, unless the Rollout
// says otherwise.
const (
	DefaultLabelKey   = "rollouts.argoproj.io/gatewayapi-canary"
	DefaultLabelValue = "in-progress"
)

// Config is what a Rollout says under
// spec.strategy.canary.trafficRouting.plugins[<plugin>].
type Config struct {
	// Namespace is the namespace of all routes: the Rollout's own, unless the
	// configuration names another.
	Namespace string
	// Routes are the routes that are named, none twice: by kind in the order of
	// Kinds, then as they are listed.
	Routes []RouteConfig
	// Selectors select further routes in Namespace. They take no header routes.
	Selectors []SelectorConfig
	// Label marks a route that is not at rest; its key is empty where it is
	// disabled.
	Label Label
	// Verification is false if VerifyWeight is not to look at what the parents of a
	// route report.
	Verification bool
	// Warnings say what in the configuration is ignored: unknown keys, and keys
	// that the plugin of argoproj-labs has dropped. Each names its key.
	Warnings []string
	// UnknownKeys are the Warnings about unknown keys.
	UnknownKeys []string
}

// RouteConfig names one route.
type RouteConfig struct {
	Kind Kind
	Name string
	// UseHeaderRoutes is true where the route takes the Rollout's header routes.
	UseHeaderRoutes bool
	// Rules are the names of the rules to split; all that hold both Services when
	// empty.
	Rules []string
}

// SelectorConfig selects routes of one kind by their labels.
type SelectorConfig struct {
	Kind     Kind
	Selector labels.Selector
	// Rules are as in RouteConfig.
	Rules []string
}

// Label is a label of a route; none when its key is empty.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Uses tells whether a Rollout has a configuration for the plugin of that name,
// valid or not.
func Uses(ro *v1alpha1.Rollout, plugin string) bool {
	canary := ro.Spec.Strategy.Canary
	return canary != nil && canary.TrafficRouting != nil && canary.TrafficRouting.Plugins[plugin] != nil
}

// ConfigOf finds and reads the configuration of a Rollout for the plugin of that
// name; see ParseConfig. Errors and warnings name the whole path of a key.
func ConfigOf(ro *v1alpha1.Rollout, plugin string) (Config, error) {
	if ro.Spec.Strategy.Canary == nil {
		return Config{}, errors.New("spec.strategy.canary is missing: only the canary strategy splits traffic")
	}
	field := fmt.Sprintf("spec.strategy.canary.trafficRouting.plugins[%q]", plugin)
	if !Uses(ro, plugin) {
		return Config{}, fmt.Errorf("%s is missing: set %s there", field, HTTPRoute.key())
	}
	config, err := ParseConfig(ro.Spec.Strategy.Canary.TrafficRouting.Plugins[plugin], ro.Namespace)
	for _, warnings := range [][]string{config.Warnings, config.UnknownKeys} {
		for i, warning := range warnings {
			warnings[i] = field + ": " + warning
		}
	}
	if err != nil {
		return config, fmt.Errorf("%s: %w", field, err)
	}
	return config, nil
}

// ParseConfig reads the configuration of a Rollout in a namespace. Keys are
// matched without regard to case, as in the plugin of argoproj-labs; null and
// empty values count as left out. An unknown key is a warning with the nearest
// known one, because a Rollout must not break when it moves to this plugin. A
// value of a wrong type, an invalid name, label or selector, and a configuration
// without any route are errors that name the key.
func ParseConfig(raw json.RawMessage, namespace string) (Config, error) {
	p := &parser{}
	fields, err := p.object(raw, "", configKeys())
	if err != nil {
		return Config{}, err
	}
	c := Config{Namespace: namespace}
	err = errors.Join(
		c.parseNamespace(fields),
		c.parseRoutes(p, fields),
		c.parseLabel(fields),
		c.parseVerification(fields),
	)
	if _, ok := fields[keyConfigMap]; ok {
		p.warn("%s is ignored: the plugin keeps what it has to remember in an annotation of the route; take the key out", keyConfigMap)
	}
	c.Warnings, c.UnknownKeys = p.warnings, p.unknown
	if err != nil {
		return c, err
	}
	if len(c.Routes) == 0 && len(c.Selectors) == 0 {
		return c, fmt.Errorf("no route is named: set %s, or list routes under %s, or select them with %s (or the same keys of grpc, tcp, tls or udp)",
			HTTPRoute.key(), HTTPRoute.key()+keysList, HTTPRoute.key()+keysSelector)
	}
	return c, nil
}

func (c *Config) parseNamespace(fields map[string]json.RawMessage) error {
	namespace, err := text(fields[keyNamespace], keyNamespace, "the namespace of the routes")
	if err != nil || namespace == "" {
		return err
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return fmt.Errorf("%s: %q is no valid namespace: %s", keyNamespace, namespace, strings.Join(problems, "; "))
	}
	c.Namespace = namespace
	return nil
}

func (c *Config) parseRoutes(p *parser, fields map[string]json.RawMessage) error {
	rules, err := names(fields[keyRules], keyRules, "the names of rules")
	failures := []error{err}
	for _, kind := range Kinds {
		failures = append(failures,
			c.parseOne(kind, fields[kind.key()], rules),
			c.parseList(p, kind, fields[kind.key()+keysList], rules),
			c.parseSelector(p, kind, fields[kind.key()+keysSelector], rules))
	}
	return errors.Join(failures...)
}

func (c *Config) parseOne(kind Kind, raw json.RawMessage, rules []string) error {
	name, err := routeName(raw, kind.key(), kind)
	if err == nil && name != "" {
		c.add(RouteConfig{Kind: kind, Name: name, UseHeaderRoutes: kind.TakesHeaderRoutes(), Rules: rules})
	}
	return err
}

func (c *Config) parseList(p *parser, kind Kind, raw json.RawMessage, rules []string) error {
	at := kind.key() + keysList
	entries, err := list(raw, at, fmt.Sprintf("a list of {%s: …}", keyName))
	failures := []error{err}
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", at, i)
		route, err := p.entry(entry, at, kind, rules)
		failures = append(failures, err)
		if err == nil && !c.add(route) {
			p.warn("%s: %s %q is named twice; once is enough", at, kind, route.Name)
		}
	}
	return errors.Join(failures...)
}

// entry reads one element of a list of routes.
func (p *parser) entry(raw json.RawMessage, at string, kind Kind, rules []string) (RouteConfig, error) {
	fields, err := p.object(raw, at, []string{keyName, keyUseHeaderRoutes, keyRules})
	if err != nil {
		return RouteConfig{}, err
	}
	name, err := routeName(fields[keyName], at+"."+keyName, kind)
	if err == nil && name == "" {
		err = fmt.Errorf("%s.%s is missing: want the name of the %s", at, keyName, kind)
	}
	headers, headersErr := boolean(fields[keyUseHeaderRoutes], at+"."+keyUseHeaderRoutes)
	own, ownErr := names(fields[keyRules], at+"."+keyRules, "the names of rules")
	if headers && !kind.TakesHeaderRoutes() {
		p.warn("%s.%s is ignored: a %s has no headers to match", at, keyUseHeaderRoutes, kind)
		headers = false
	}
	if own != nil {
		rules = own
	}
	return RouteConfig{Kind: kind, Name: name, UseHeaderRoutes: headers, Rules: rules}, errors.Join(err, headersErr, ownErr)
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
	c.Routes[i].Rules = route.Rules
	return false
}

func (c *Config) parseLabel(fields map[string]json.RawMessage) error {
	disabled, err := boolean(fields[keyDisableLabel], keyDisableLabel)
	key, keyErr := text(fields[keyLabelKey], keyLabelKey, "the key of a label")
	value, valueErr := text(fields[keyLabelValue], keyLabelValue, "the value of a label")
	if err := errors.Join(err, keyErr, valueErr); err != nil {
		return err
	}
	c.Label = Label{DefaultLabelKey, DefaultLabelValue}
	if key != "" {
		c.Label.Key = key
	}
	if value != "" {
		c.Label.Value = value
	}
	if problems := validation.IsQualifiedName(c.Label.Key); len(problems) > 0 {
		return fmt.Errorf("%s: %q is no valid label key: %s", keyLabelKey, c.Label.Key, strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(c.Label.Value); len(problems) > 0 {
		return fmt.Errorf("%s: %q is no valid label value: %s", keyLabelValue, c.Label.Value, strings.Join(problems, "; "))
	}
	if disabled {
		c.Label = Label{}
	}
	return nil
}

// parseVerification takes booleans too: unquoted, YAML reads off as false.
func (c *Config) parseVerification(fields map[string]json.RawMessage) error {
	raw := fields[keyVerification]
	c.Verification = true
	if isLeftOut(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, &c.Verification); err == nil {
		return nil
	}
	var word string
	if err := json.Unmarshal(raw, &word); err != nil {
		return fmt.Errorf("%s: want on or off, got %s", keyVerification, jsontype.Of(raw))
	}
	switch strings.ToLower(word) {
	case "on", "":
	case "off":
		c.Verification = false
	default:
		return fmt.Errorf("%s: want on or off, got %q", keyVerification, word)
	}
	return nil
}

func routeName(raw json.RawMessage, at string, kind Kind) (string, error) {
	name, err := text(raw, at, fmt.Sprintf("the name of the %s", kind))
	if err != nil || name == "" {
		return "", err
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%s: %q is no valid object name: %s", at, name, strings.Join(problems, "; "))
	}
	return name, nil
}
