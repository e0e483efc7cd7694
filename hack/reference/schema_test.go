package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, err := makeSchema(root, name)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, value); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate returns what a schema finds in YAML.
func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestSchemasAreCurrent(t *testing.T) {
	for name := range schemas {
		want, err := makeSchema(root, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, "deploy", "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: run make generate (-made +found):\n%s", name, diff)
		}
	}
}

// The samples are valid by the schema that they name, and so are their presets.
func TestSamplesAreValid(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "examples", "steps", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	const named = "# yaml-language-server: $schema=" + releases
	ofRollout, ofPreset := compiled(t, "step-rollout.schema.json"), compiled(t, "step-preset.schema.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), named+"step-rollout.schema.json\n") {
			t.Errorf("%s does not name its schema", file)
		}
		presets := 0
		for _, document := range manifest.Documents(text) {
			for _, object := range document.Objects {
				if err := validate(t, ofRollout, object); err != nil {
					t.Errorf("%s: document %d: %v", file, document.Number, err)
				}
				var configMap struct {
					Data map[string]string `json:"data"`
				}
				if err := yaml.Unmarshal(object, &configMap); err != nil {
					t.Fatal(err)
				}
				preset, isPreset := configMap.Data[steps.PresetKey]
				if !isPreset {
					continue
				}
				presets++
				if err := validate(t, ofPreset, []byte(preset)); err != nil {
					t.Errorf("%s: the preset: %v", file, err)
				}
				if !strings.HasPrefix(preset, named+"step-preset.schema.json\n") {
					t.Errorf("%s: the preset does not name its schema", file)
				}
			}
		}
		if presets == 0 {
			t.Errorf("%s has no preset", file)
		}
	}
}

func TestSchemasFindMistakes(t *testing.T) {
	const rollout = "{kind: Rollout, spec: {strategy: {canary: {steps: [{setWeight: 20}, {plugin: {name: kedify/step, config: CONFIG}}]}}}}"
	for name, tc := range map[string]struct{ schema, text, says string }{
		"an unknown key":         {"step-rollout", "{use: smoke, tiemout: 5m}", "tiemout"},
		"a key of the kind":      {"step-rollout", "{http: {requst: {}}}", "requst"},
		"of the wrong type":      {"step-rollout", "{use: smoke, retries: often}", "retries"},
		"no duration":            {"step-rollout", "{use: smoke, timeout: 5 minutes}", "timeout"},
		"no such value":          {"step-rollout", "{use: smoke, failurePolicy: ignore}", "failurePolicy"},
		"two kinds":              {"step-rollout", "{http: {}, job: {}}", "not"},
		"nothing to do":          {"step-rollout", "{timeout: 5m}", "missing"},
		"half a reference":       {"step-rollout", "{http: {request: {url: {valueFrm: {}}}}}", "valueFrm"},
		"a key of a Job":         {"step-rollout", "{job: {template: {}, backofLimit: 2}}", "backofLimit"},
		"a key of a preset":      {"step-preset", "{defaults: {http: {}}, lock: [http]}", "lock"},
		"in defaults":            {"step-preset", "{defaults: {http: {pol: {}}}}", "pol"},
		"hosts that are no list": {"step-preset", "{hosts: ci.example.com}", "hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.text
			if tc.schema == "step-rollout" {
				text = strings.Replace(rollout, "CONFIG", text, 1)
			}
			if err := validate(t, compiled(t, tc.schema+".schema.json"), []byte(text)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
		})
	}
	for _, other := range []string{"{kind: Service, spec: []}", strings.NewReplacer("kedify/step", "acme/other", "CONFIG", "{any: key}").Replace(rollout)} {
		if err := validate(t, compiled(t, "step-rollout.schema.json"), []byte(other)); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}
