package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// schema is a JSON Schema of draft 7, which editors know.
type schema map[string]any

const (
	draft = "http://json-schema.org/draft-07/schema#"
	// releases is where a release's files are.
	releases = "https://github.com/kedify/argo-rollouts-plugin/releases/latest/download/"
	// registered is the name of the steps that the schema describes.
	registered = "kedify/step"
)

// schemas are the schemas by their file's name.
var schemas = map[string]func(*schemaMaker) schema{
	"step-rollout.schema.json": func(m *schemaMaker) schema {
		return schema{
			"title": "A Rollout with steps of " + registered,
			"if":    schema{"properties": schema{"kind": schema{"const": "Rollout"}}, "required": []string{"kind"}},
			"then": within("spec", within("strategy", within("canary", within("steps", schema{"items": within("plugin", schema{
				"if":   schema{"properties": schema{"name": schema{"const": registered}}, "required": []string{"name"}},
				"then": within("config", m.config(false)),
			})})))),
		}
	},
	"step-preset.schema.json": func(m *schemaMaker) schema {
		preset := m.of(reflect.TypeFor[steps.Preset]())
		preset["title"] = "A preset of " + registered
		preset["properties"].(schema)["defaults"] = m.config(true)
		return preset
	},
}

// within returns the schema of an object whose value at a key has a schema.
func within(key string, s schema) schema { return schema{"properties": schema{key: s}} }

// makeSchema returns the file of a schema.
func makeSchema(root, name string) ([]byte, error) {
	m := &schemaMaker{comments: comments{root, map[string]*sources{}}, definitions: schema{}}
	made := schemas[name](m)
	made["$schema"], made["$id"], made["definitions"] = draft, releases+name, m.definitions
	if m.err != nil {
		return nil, m.err
	}
	text, err := json.MarshalIndent(made, "", " ")
	return append(text, '\n'), err
}

// schemaMaker makes schemas of Go types. Required keys are not required in a schema: those of
// a Rollout may be in its preset.
type schemaMaker struct {
	comments comments
	// definitions are the schemas of structs by their names.
	definitions schema
	err         error
}

// config returns the schema of a step's configuration: the keys of every kind, and a section
// for each kind, of which there is at most one.
func (m *schemaMaker) config(inPreset bool) schema {
	config := m.of(reflect.TypeFor[steps.Settings]())
	properties := config["properties"].(schema)
	var one, two []schema
	for i, kind := range kindParts {
		properties[kind.name] = m.reference(kind.of)
		one = append(one, schema{"required": []string{kind.name}})
		for _, other := range kindParts[:i] {
			two = append(two, schema{"required": []string{other.name, kind.name}})
		}
	}
	config["not"] = schema{"anyOf": two}
	if inPreset {
		delete(properties, "use")
	} else {
		config["anyOf"] = append(one, schema{"required": []string{"use"}})
	}
	return config
}

// of returns the schema of a struct.
func (m *schemaMaker) of(object reflect.Type) schema {
	properties := schema{}
	for _, key := range strict.Keys(object) {
		source, err := m.comments.of(key.In)
		if err != nil {
			m.err = err
			return nil
		}
		property := m.value(key.Field.Type)
		if text := source.fields[key.In.Name()+"."+key.Field.Name]; text != "" {
			c, err := readComment(text, key.Field.Name, key.Name)
			if err != nil {
				m.err = fmt.Errorf("%s.%s: %w", key.In, key.Field.Name, err)
			}
			if _, isReference := property["$ref"]; isReference { // draft 7 ignores what stands beside a $ref
				property = schema{"allOf": []schema{property}}
			} else {
				property = maps.Clone(property)
			}
			property["description"] = strings.ReplaceAll(oneLine(c.text), "`", "")
			if c.standard != "" && c.standard != "required" {
				property["description"] = fmt.Sprintf("%s Default: %s.", property["description"], strings.ReplaceAll(c.standard, "`", ""))
			}
		}
		properties[key.Name] = property
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

// reference returns a reference to the schema of a struct.
func (m *schemaMaker) reference(object reflect.Type) schema {
	name := path.Base(object.PkgPath()) + "." + object.Name()
	if m.definitions[name] == nil {
		m.definitions[name] = schema{}
		m.definitions[name] = m.of(object)
	}
	return schema{"$ref": "#/definitions/" + name}
}

// foreign are types that are read otherwise than their fields say, or that are not ours: of
// those the schema has the keys alone.
var foreign = map[reflect.Type]schema{
	reflect.TypeFor[metav1.Duration](): {"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`},
	reflect.TypeFor[json.RawMessage](): {},
}

// value returns the schema of a value of a Go type.
func (m *schemaMaker) value(t reflect.Type) schema {
	if s, known := foreign[t]; known {
		return s
	}
	switch {
	case t == reflect.TypeFor[secret.Value]():
		return schema{"anyOf": []schema{{"type": "string"}, m.reference(reflect.TypeFor[secret.Reference]())}}
	case t == reflect.TypeFor[batchv1.JobSpec]() || t == reflect.TypeFor[metav1.LabelSelector]():
		return m.reference(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem())
	case reflect.Struct:
		if strings.HasPrefix(t.PkgPath(), module) {
			return m.reference(t)
		}
		return schema{"type": "object"}
	case reflect.Slice:
		return schema{"type": "array", "items": m.value(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": m.value(t.Elem())}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.String:
		source, err := m.comments.of(t)
		if err != nil {
			m.err = err
		} else if values := source.constants[t.Name()]; len(values) > 0 {
			return schema{"type": "string", "enum": values}
		}
		return schema{"type": "string"}
	default:
		return schema{}
	}
}
