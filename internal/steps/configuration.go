package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/instead"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// Reader reads the configuration of the steps of a registration. It makes no request.
type Reader struct {
	// Name is the name under which the plugin is registered, for messages.
	Name string
	// Kind is the kind of all steps, where the registration says it: keys that are not common
	// ones are then the kind's, whether under its name or not. It is nil where each step says
	// its own kind.
	Kind Kind
	// Kinds are those that a step can have where Kind is nil.
	Kinds []Kind
	// AllowKinds are the names of the kinds that a Rollout may name itself, and not only by a
	// preset; all of them if there are none.
	AllowKinds []string
}

// read reads the configuration of an attempt at a step. While the present preset cannot be
// used or does not suit the configuration, an attempt that has begun goes on with the preset
// that it was last read with: its work has to be polled, cancelled and undone. outdated then
// says what is wrong with the present preset: such an attempt makes no new Start. An attempt
// that this process does not know goes on with a preset that has become wrong as that last was,
// but not with one that is gone.
func (p *Plugin) read(ctx context.Context, ro *v1alpha1.Rollout, pluginName, attempt string, config json.RawMessage, begun bool) (c configured, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c, err = configured{}, PanicError(p.opts.Logger, "while the configuration of a step is read", cause)
		}
	}()
	reader := Reader{Name: pluginName, Kind: p.opts.Kind, Kinds: p.opts.Kinds, AllowKinds: p.opts.AllowKinds}
	present := &Preset{}
	c, err = reader.read(ro, config, begun, func(name string) (*Preset, error) {
		if p.opts.Presets == nil && name == "" {
			return present, nil
		} else if p.opts.Presets == nil {
			return nil, fmt.Errorf("use %s: the registration has no presets", name)
		}
		preset, err := p.opts.Presets.Preset(ctx, name)
		present = preset
		return preset, err
	})
	key := presetKey(attempt, config)
	earlier := []*Preset{p.attempts.of(key).preset}
	if unusable := new(PresetError); errors.As(err, &unusable) && !unusable.Gone {
		earlier = append(earlier, unusable.Last)
	}
	for _, preset := range earlier {
		if !begun || preset == nil {
			continue
		}
		if was := reader.kindIn(preset); err == nil && was != "" && was != c.kind {
			err = fmt.Errorf("the preset is for steps of kind %s now, and the step was begun as one of kind %s", c.kind, was)
		}
		if err == nil {
			break
		}
		with, earlierErr := reader.read(ro, config, begun, func(string) (*Preset, error) { return preset, nil })
		if earlierErr == nil {
			with.outdated = err
			return with, nil
		}
	}
	if err == nil && c.step != nil {
		p.attempts.keepPreset(key, present)
	}
	return c, err
}

// presetKey is the key in Plugin.attempts of the preset that an attempt was read with. A
// user who may edit a Rollout may edit its status too: an attempt that this process does
// not know, or another configuration, must not bring back a former preset, in which an
// admin may have closed a hole since.
func presetKey(attempt string, config json.RawMessage) string {
	return hashOf(attempt, string(config))
}

// ReadConfig reads the configuration that a Rollout gives a step. presets returns the preset
// that it uses, or that of the registration, which has no name. The error names the key.
func (r Reader) ReadConfig(ro *v1alpha1.Rollout, config json.RawMessage, presets func(name string) (*Preset, error)) (Settings, error) {
	c, err := r.read(ro, config, false, presets)
	return c.settings, err
}

// Merged returns the configuration that a Rollout gives a step merged over its preset, as far
// as it can be read.
func Merged(config json.RawMessage, preset *Preset) map[string]any {
	object, err := objectOf(config)
	if err != nil {
		return nil
	}
	return merge(preset.Defaults, object)
}

func (r Reader) read(ro *v1alpha1.Rollout, config json.RawMessage, begun bool, presets func(string) (*Preset, error)) (c configured, err error) {
	object, err := objectOf(config)
	if err != nil {
		return c, err
	}
	given, err := r.sectioned(object)
	if err == nil {
		err = rejectOtherNamespaces(object)
	}
	if err == nil {
		c.settings, err = settingsOf(given.keys)
	}
	if err != nil {
		return c, err
	}
	own := c.settings
	if c.preset = own.Use; r.Kind != nil && own.Use != "" {
		return c, fmt.Errorf("use: %s is registered for steps of kind %s, with a preset of its own or none; use the plugin that is registered without a kind, such as kedify/step", r.Name, r.Kind.Name())
	}
	preset := &Preset{}
	if r.Kind != nil || own.Use != "" {
		preset, err = presets(own.Use)
	}
	var unusable *PresetError
	if errors.As(err, &unusable) {
		preset = unusable.Last
	}
	if preset != nil && !preset.Serves(ro.Namespace) {
		return c, fmt.Errorf("the preset is not for Rollouts of namespace %s: its namespaces do not name that", ro.Namespace)
	}
	if err != nil {
		c.settings = given.settingsWithout(preset)
		return c, err
	}
	if preset.Disabled {
		c.disabled = "nothing was started: the preset is disabled"
	}
	err = r.over(&c, preset, given)
	if err == nil && !begun {
		_, tooLong := c.settings.TimeoutFor(ro)
		if _, ownTooLong := own.TimeoutFor(ro); tooLong != nil && ownTooLong == nil {
			err = &PresetError{Cause: fmt.Errorf("the preset's %w", tooLong), Last: preset}
		}
	}
	if err == nil {
		return c, nil
	}
	c.step, c.settings = nil, given.settingsWithout(preset)
	if preset.Disabled && !begun {
		return c, nil
	}
	return c, err
}

// over reads what a Rollout gives a step, merged over a preset.
func (r Reader) over(c *configured, preset *Preset, given sectioned) error {
	unusable := func(format string, args ...any) error {
		err := &PresetError{Cause: fmt.Errorf(format, args...), Last: preset}
		if preset.Report != nil {
			preset.Report(err)
		}
		return err
	}
	defaults, err := r.sectioned(preset.Defaults)
	if err != nil {
		return unusable("defaults: %w", err)
	}
	switch c.kind = cmp.Or(defaults.kind, given.kind); {
	case c.kind == "":
		return fmt.Errorf("the step does not say what it does: want one of %s", r.names())
	case given.kind != "" && given.kind != c.kind:
		return fmt.Errorf("%s: the preset is for steps of kind %s", given.kind, c.kind)
	case r.Kind == nil && defaults.kind == "" && len(r.AllowKinds) > 0 && !slices.Contains(r.AllowKinds, c.kind):
		return fmt.Errorf("%s: a Rollout may name this kind of step by a preset alone (--allow-kind names %s)", c.kind, strings.Join(r.AllowKinds, ", "))
	}
	if err := r.locks(preset).lockedIn(given.keys); err != nil {
		return err
	}
	merged := merge(defaults.keys, given.keys)
	if c.settings, err = settingsOf(merged); err != nil {
		return unusable("defaults: %w", err) // the Rollout's own were read before
	}
	c.step, err = r.parse(c.kind, Source{
		Config: sectionOf(merged, c.kind), Defaults: sectionOf(defaults.keys, c.kind),
		PresetHosts: preset.Hosts, Preset: c.preset, Settings: c.settings,
	})
	if err != nil && isPresets(err, defaults.keys, given.keys) {
		return unusable("the preset is wrong: %w", err)
	}
	return err
}

// parse reads the section of a kind. The error names the key with the kind before it.
func (r Reader) parse(kind string, source Source) (Step, error) {
	step, err := r.kindOf(kind).Parse(source)
	if typed := new(strict.Error); errors.As(err, &typed) && typed.Unknown {
		err = advised(err, source.Config)
	}
	switch {
	case err == nil:
		return step, nil
	case isOfHosts(err):
		return nil, err
	case beginsWithKey.MatchString(err.Error()):
		return nil, fmt.Errorf("%s.%w", kind, err)
	}
	return nil, fmt.Errorf("%s: %w", kind, err)
}

// advised returns an error about unknown keys that says what to write in place of one, if it is
// known what its author wants.
func advised(err error, section json.RawMessage) error {
	var object map[string]any
	if json.Unmarshal(section, &object) != nil {
		return err
	}
	if key, said := instead.In(object); said != "" {
		return withText{key + ": " + said, err}
	}
	return err
}

// withText is an error with another text.
type withText struct {
	text  string
	cause error
}

func (e withText) Error() string { return e.text }

func (e withText) Unwrap() error { return e.cause }

// sectionOf returns what stands under a kind's name; an empty object if there is nothing.
func sectionOf(keys map[string]any, kind string) json.RawMessage {
	section, _ := keys[kind].(map[string]any)
	text, err := json.Marshal(merge(section, nil))
	if err != nil {
		panic(err) // never: it was JSON
	}
	return text
}

// Check returns what is wrong with a preset whatever a Rollout lays over it. The error names
// the key.
func (r Reader) Check(p *Preset) error {
	defaults, err := r.sectioned(p.Defaults)
	var settings Settings
	if err == nil {
		settings, err = settingsOf(defaults.keys)
	}
	if err == nil && settings.Use != "" {
		err = errors.New("use: a preset uses no other")
	}
	if err != nil {
		return fmt.Errorf("defaults: %w", err)
	}
	for _, lock := range r.locks(p).Locked {
		if err := r.checkLock(lock); err != nil {
			return fmt.Errorf("locked: %w", err)
		}
	}
	if defaults.kind == "" {
		return nil
	}
	// Other errors may be about what the preset leaves open.
	section := sectionOf(defaults.keys, defaults.kind)
	_, err = r.parse(defaults.kind, Source{Config: section, Defaults: section, PresetHosts: p.Hosts, Settings: settings})
	if err != nil && isOfHosts(err) {
		return err
	} else if typed := new(strict.Error); errors.As(err, &typed) {
		return fmt.Errorf("defaults: %w", err)
	}
	return nil
}

// checkLock returns an error for a lock of a key that steps do not have: it would lock nothing.
func (r Reader) checkLock(lock string) error {
	kind, rest, _ := strings.Cut(lock, ".")
	switch {
	case lock == "*", slices.Contains(commonKeys, lock):
		return nil
	case r.kindOf(kind) == nil:
		return fmt.Errorf("%s: want a key such as http.request.url, or *", lock)
	case rest == "":
		return nil
	}
	var section any
	for _, key := range slices.Backward(strings.Split(rest, ".")) {
		section = map[string]any{key: section}
	}
	_, err := r.parse(kind, Source{Config: sectionOf(map[string]any{kind: section}, kind)})
	if typed := new(strict.Error); errors.As(err, &typed) && typed.Unknown {
		return err
	}
	return nil
}

// commonKeys are the keys that all kinds of steps have.
var commonKeys = func() (names []string) {
	for _, key := range strict.Keys(reflect.TypeFor[Settings]()) {
		names = append(names, key.Name)
	}
	return names
}()

// sectioned is a step's configuration, or a preset's defaults, with what one kind alone has
// under the name of the kind.
type sectioned struct {
	keys map[string]any
	// kind is the kind that it is for; empty if it leaves that open.
	kind string
}

// sectioned puts what stands beside the common keys under the kind of the registration.
func (r Reader) sectioned(object map[string]any) (s sectioned, err error) {
	s.keys = map[string]any{}
	if r.Kind != nil {
		s.kind = r.Kind.Name()
	}
	if key, said := instead.In(object); r.Kind == nil && said != "" {
		return s, fmt.Errorf("%s: %s", key, said)
	}
	section, beside := map[string]any{}, map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		inner, isObject := object[key].(map[string]any)
		switch isKind := r.kindOf(key) != nil; {
		case slices.Contains(commonKeys, key):
			s.keys[key] = object[key]
		case isKind && s.kind != "" && s.kind != key:
			return s, fmt.Errorf("%s and %s: want one of the two", s.kind, key)
		case isKind && !isObject:
			return s, fmt.Errorf("%s: want an object", key)
		case isKind:
			s.kind, section = key, maps.Clone(inner)
		case r.Kind == nil:
			known := slices.Concat(commonKeys, r.kindNames())
			return s, fmt.Errorf("%s: the key is not known: did you mean %q? What a step does stands under %s", key, nearest.Word(key, known), r.names())
		default:
			beside[key] = object[key]
		}
	}
	for key, value := range beside {
		if _, twice := section[key]; twice {
			return s, fmt.Errorf("%s.%s: %s is there twice, also beside %s", s.kind, key, key, s.kind)
		}
		section[key] = value
	}
	if len(section) > 0 {
		s.keys[s.kind] = section
	}
	return s, nil
}

// kindIn returns the kind of step that a preset is for; empty if it leaves that open.
func (r Reader) kindIn(preset *Preset) string {
	defaults, _ := r.sectioned(preset.Defaults)
	return defaults.kind
}

// locks returns a preset whose locks begin with a common key or a kind.
func (r Reader) locks(p *Preset) *Preset {
	if r.Kind == nil {
		return p
	}
	of := &Preset{}
	for _, lock := range p.Locked {
		first, _, _ := strings.Cut(lock, ".")
		if lock != "*" && first != r.Kind.Name() && !slices.Contains(commonKeys, first) {
			lock = r.Kind.Name() + "." + lock
		}
		of.Locked = append(of.Locked, lock)
	}
	return of
}

// kindOf returns the kind with a name, nil if there is none.
func (r Reader) kindOf(name string) Kind {
	kinds := r.Kinds
	if r.Kind != nil {
		kinds = []Kind{r.Kind}
	}
	for _, kind := range kinds {
		if kind.Name() == name {
			return kind
		}
	}
	return nil
}

func (r Reader) kindNames() (names []string) {
	for _, kind := range r.Kinds {
		names = append(names, kind.Name())
	}
	return names
}

// names are the kinds for people.
func (r Reader) names() string { return strings.Join(r.kindNames(), ", ") }

// settingsOf reads the common keys of a configuration.
func settingsOf(keys map[string]any) (s Settings, err error) {
	common := maps.Clone(keys)
	maps.DeleteFunc(common, func(key string, _ any) bool { return !slices.Contains(commonKeys, key) })
	text, err := json.Marshal(common)
	if err == nil {
		err = strict.Decode(text, &s)
	}
	if err == nil {
		err = s.Validate()
	}
	return s, err
}

// settingsWithout returns the settings of a Rollout that count while its preset cannot be used:
// those that the preset, as it could last be used, does not lock. Without that, failurePolicy
// does not count: a gate must not open by breaking.
func (s sectioned) settingsWithout(last *Preset) Settings {
	if last == nil {
		last = &Preset{Locked: []string{"failurePolicy"}}
	}
	counts := maps.Clone(s.keys)
	maps.DeleteFunc(counts, func(key string, value any) bool { return last.lockedIn(map[string]any{key: value}) != nil })
	settings, _ := settingsOf(counts) // the whole was read before
	return settings
}

var (
	leadingPath   = regexp.MustCompile(`^[A-Za-z][\w.-]*(?:\[(?:\d+|"[^"]*")\][\w.-]*)*`)
	pathWords     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[\w-]+`)
	beginsWithKey = regexp.MustCompile(`^[A-Za-z][\w-]*[.:[]`)
)

// pathOf returns the path of the key with which an error begins.
func pathOf(err error) []string {
	words := pathWords.FindAllString(leadingPath.FindString(err.Error()), -1)
	for i, word := range words {
		if unquoted, err := strconv.Unquote(word); err == nil {
			words[i] = unquoted
		}
	}
	return words
}

// isOfHosts tells whether an error of Parse is about the hosts of a preset.
func isOfHosts(err error) bool { return strings.HasPrefix(err.Error(), "hosts ") }

// isPresets tells whether an error of Parse is about what the preset says, not the Rollout:
// the preset has the key that it names, and the Rollout does not set it. What both say
// together is for the Rollout to mend, and so is what the preset leaves open.
func isPresets(err error, defaults, given map[string]any) bool {
	if typed := new(strict.Error); errors.As(err, &typed) {
		return false // Check would have found it in the preset
	}
	path := pathOf(err)
	if at := slices.IndexFunc(path, func(key string) bool { return key == "valueFrom" || isReference(key) }); at >= 0 {
		path = path[:at+1] // merge replaces it as a whole
	}
	return isOfHosts(err) || len(path) > 0 && sets(defaults, path) && !sets(given, path)
}
