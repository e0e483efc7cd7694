package lint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/nearest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// File is a file of manifests.
type File struct {
	Name string
	Text []byte
}

// Finding is a Problem of an object in a file.
type Finding struct {
	File string
	// Document counts the documents of the file from 1.
	Document int
	// Object is the kind and the name of an object: "Rollout demo/app".
	Object string
	Problem
}

// String is the finding on one line.
func (f Finding) String() string {
	where := fmt.Sprintf("%s: document %d", f.File, f.Document)
	for _, part := range []string{f.Object, f.Path} {
		if part != "" {
			where += ": " + part
		}
	}
	return where + ": " + f.Message
}

// Report is what was found in files.
type Report struct {
	// Findings are problems, Unchecked says what was not checked, and why, and Disabled which
	// steps start nothing.
	Findings, Unchecked, Disabled []Finding
	// Counts of what was found and checked.
	Rollouts, Steps, Checked, Presets, Registrations int
}

// Summary says on one line what was looked at.
func (r Report) Summary() string {
	return fmt.Sprintf("Rollouts: %d, plugin steps: %d (%d read with their registration), registrations: %d, presets: %d", r.Rollouts, r.Steps, r.Checked, r.Registrations, r.Presets)
}

// object names an object in a file.
type object struct {
	file     string
	document int
	name     string
}

func (o object) finding(p Problem) Finding { return Finding{o.file, o.document, o.name, p} }

// presetOf is a ConfigMap with a preset.
type presetOf struct {
	at              object
	namespace, name string
	// isLabelled is true for one that steps can name.
	isLabelled bool
	preset     *steps.Preset
	err        error
}

// linter collects what the files hold.
type linter struct {
	report    Report
	all       Kinds
	known     bool
	entries   []Entry
	presets   []presetOf
	rollouts  []v1alpha1.Rollout
	rolloutAt []object
	entryAt   []object
	// namespace is that of argo-rollouts-config, in which the presets are that steps name.
	namespace string
}

// Files checks the Rollouts, presets and registrations in files against one another.
// Objects of other kinds are passed over.
func Files(files []File, all Kinds) Report {
	l := &linter{all: all}
	for _, file := range files {
		for _, document := range manifest.Documents(file.Text) {
			if document.Err != nil {
				l.report.Findings = append(l.report.Findings, Finding{file.Name, document.Number, "", Problem{"", "cannot be read: " + document.Err.Error()}})
			}
			for _, text := range document.Objects {
				l.take(file.Name, document.Number, text)
			}
		}
	}
	installation := Installation{Entries: l.entries, Known: l.known, Kinds: all, Preset: l.preset}
	l.checkPresets(installation)
	for i := range l.entries {
		l.checkEntry(installation, i)
	}
	for i := range l.rollouts {
		found := installation.CheckRollout(&l.rollouts[i])
		for _, p := range found.Problems {
			l.report.Findings = append(l.report.Findings, l.rolloutAt[i].finding(p))
		}
		for _, p := range found.Unchecked {
			l.report.Unchecked = append(l.report.Unchecked, l.rolloutAt[i].finding(p))
		}
		for _, p := range found.Disabled {
			l.report.Disabled = append(l.report.Disabled, l.rolloutAt[i].finding(p))
		}
		l.report.Steps += found.Steps
		l.report.Checked += found.Checked
	}
	l.report.Rollouts, l.report.Presets, l.report.Registrations = len(l.rollouts), len(l.presets), len(l.entries)
	return l.report
}

// take reads an object.
func (l *linter) take(file string, document int, text json.RawMessage) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(text, &head) != nil {
		return // no object of Kubernetes
	}
	name := strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/")
	at := object{file, document, head.Kind + " " + name}
	fail := func(path, format string, args ...any) {
		l.report.Findings = append(l.report.Findings, at.finding(Problem{path, fmt.Sprintf(format, args...)}))
	}
	switch {
	case head.Kind == "Rollout" && strings.HasPrefix(head.APIVersion, "argoproj.io/"):
		var ro v1alpha1.Rollout
		if err := json.Unmarshal(text, &ro); err != nil {
			fail("", "cannot be read as a Rollout: %v", err)
			return
		}
		l.rollouts, l.rolloutAt = append(l.rollouts, ro), append(l.rolloutAt, at)
	case head.Kind == "ConfigMap" && head.APIVersion == "v1":
		var configMap corev1.ConfigMap
		if err := json.Unmarshal(text, &configMap); err != nil {
			fail("", "cannot be read as a ConfigMap: %v", err)
			return
		}
		if text, is := configMap.Data[steps.PresetKey]; is {
			preset, err := steps.ReadPreset([]byte(text))
			if err != nil {
				fail(dataPath, "%v", err)
			}
			l.presets = append(l.presets, presetOf{at, configMap.Namespace, configMap.Name, configMap.Labels[steps.PresetLabel] == "true", preset, err})
		}
		if configMap.Name == ConfigMapName {
			l.namespace = configMap.Namespace
			l.takeEntries(at, configMap.Data[ListKey], fail)
		}
	}
}

func (l *linter) takeEntries(at object, list string, fail func(path, format string, args ...any)) {
	l.known = true
	entries, err := ReadEntries(list, l.all)
	if err != nil {
		l.known = false // an unreadable list does not tell which entries are missing
		fail("data."+ListKey, "%v", err)
		return
	}
	// The controller ignores keys that it does not know.
	if text, err := yaml.YAMLToJSONStrict([]byte(list)); err != nil {
		fail("data."+ListKey, "%v", err)
	} else if err := strict.Decode(text, &[]plugintypes.PluginItem{}); err != nil {
		fail("data."+ListKey, "%v", err)
	}
	for _, p := range CheckEntries(entries) {
		fail(p.Path, "%s", p.Message)
	}
	for _, e := range entries {
		l.entries, l.entryAt = append(l.entries, e), append(l.entryAt, at)
	}
}

// dataPath is the path of a preset in its ConfigMap.
var dataPath = fmt.Sprintf("data[%q]", steps.PresetKey)

// checkPresets checks the presets that steps can name.
func (l *linter) checkPresets(installation Installation) {
	for i := range l.presets {
		p := &l.presets[i]
		if !p.isLabelled || p.err != nil {
			continue
		}
		if p.err = installation.CheckPreset(Entry{}, p.preset); p.err != nil {
			l.report.Findings = append(l.report.Findings, p.at.finding(Problem{dataPath, p.err.Error()}))
		}
	}
}

// checkEntry checks a registration against the presets.
func (l *linter) checkEntry(installation Installation, i int) {
	e, at := l.entries[i], l.entryAt[i]
	if !e.Ours || e.Wrong != nil {
		return
	}
	var preset *steps.Preset
	if e.Registration.Preset.Name != "" {
		var err error
		if preset, err = l.preset(e, ""); err != nil {
			if errors.Is(err, ErrUnknown) {
				l.report.Unchecked = append(l.report.Unchecked, at.finding(Problem{e.Path() + ".args", fmt.Sprintf("the preset %s is not among the files", e.Registration.Preset)}))
			}
			return
		}
		if err := installation.CheckPreset(e, preset); err != nil {
			l.report.Findings = append(l.report.Findings, at.finding(Problem{e.Path() + ".args", fmt.Sprintf("the preset %s: %v", e.Registration.Preset, err)}))
		}
	}
	if NeedsHosts(e, preset) {
		l.report.Findings = append(l.report.Findings, at.finding(Problem{e.Path() + ".args", "no host is allowed, so every request is refused: want --allow-host, or hosts in the preset"}))
	}
}

// maxEdits is in how many letters a name that is taken for a mistake differs from a known one.
const maxEdits = 2

// preset returns a preset among the files. kustomize may set their namespaces later.
func (l *linter) preset(e Entry, name string) (*steps.Preset, error) {
	namespace, isNamed := cmp.Or(e.Registration.PresetsNamespace, l.namespace), name != ""
	if !isNamed {
		namespace, name = e.Registration.Preset.Namespace, e.Registration.Preset.Name
	}
	var unlabelled *presetOf
	var names []string
	for i := range l.presets {
		switch p := &l.presets[i]; {
		case p.namespace != namespace && p.namespace != "" && namespace != "":
		case p.name != name:
			names = append(names, p.name)
		case isNamed && !p.isLabelled:
			unlabelled = p
		default:
			return p.preset, p.err
		}
	}
	if unlabelled != nil {
		return nil, fmt.Errorf("its ConfigMap has not the label %s: \"true\"", steps.PresetLabel)
	}
	// Others may be in files that were not given, as those that kustomize makes.
	if near := nearest.Word(name, names); isNamed && near != "" && nearest.Edits(name, near) <= maxEdits {
		return nil, fmt.Errorf("it is not among the files: did you mean %s?", near)
	}
	return nil, ErrUnknown
}
