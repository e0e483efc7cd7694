package lint

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	plugintypes "github.com/argoproj/argo-rollouts/utils/plugin/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
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
	// Findings are problems, Unchecked says what was not checked, and why.
	Findings, Unchecked []Finding
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

type presetOf struct {
	preset *steps.Preset
	err    error
}

// linter collects what the files hold.
type linter struct {
	report    Report
	all       Kinds
	known     bool
	entries   []Entry
	presets   map[string]presetOf // by namespace/name
	rollouts  []v1alpha1.Rollout
	rolloutAt []object
	entryAt   []object
}

// Files checks the Rollouts, presets and registrations in files against one another.
// Objects of other kinds are passed over.
func Files(files []File, all Kinds) Report {
	l := &linter{all: all, presets: map[string]presetOf{}}
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
	for i := range l.entries {
		l.checkEntry(i)
	}
	installation := Installation{Entries: l.entries, Known: l.known, Kinds: all, Preset: l.preset}
	for i := range l.rollouts {
		found := installation.CheckRollout(&l.rollouts[i])
		for _, p := range found.Problems {
			l.report.Findings = append(l.report.Findings, l.rolloutAt[i].finding(p))
		}
		for _, p := range found.Unchecked {
			l.report.Unchecked = append(l.report.Unchecked, l.rolloutAt[i].finding(p))
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
				fail(fmt.Sprintf("data[%q]", steps.PresetKey), "%v", err)
			}
			l.presets[name] = presetOf{preset, err}
		}
		if configMap.Name == ConfigMapName {
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

// checkEntry checks a registration against the presets.
func (l *linter) checkEntry(i int) {
	e, at := l.entries[i], l.entryAt[i]
	if !e.Ours || e.Wrong != nil {
		return
	}
	var preset *steps.Preset
	if e.Registration.Preset.IsSet() {
		var known bool
		var err error
		if preset, known, err = l.preset(e); !known || err != nil {
			if !known {
				l.report.Unchecked = append(l.report.Unchecked, at.finding(Problem{e.Path() + ".args", fmt.Sprintf("the preset %s is not among the files", e.Registration.Preset)}))
			}
			return
		}
	}
	if NeedsHosts(e, preset) {
		l.report.Findings = append(l.report.Findings, at.finding(Problem{e.Path() + ".args", "no host is allowed, so every request is refused: want --allow-host, or hosts in the preset"}))
	}
}

// preset returns the preset of a registration among the files.
func (l *linter) preset(e Entry) (*steps.Preset, bool, error) {
	preset := e.Registration.Preset
	if preset.File != "" {
		return nil, false, nil // it is in the controller's container
	}
	found, known := l.presets[preset.String()]
	if !known { // kustomize may set the namespace later
		found, known = l.presets[preset.Name]
	}
	return found.preset, known, found.err
}
