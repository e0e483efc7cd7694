package resourcestep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/strict"
)

// manifest is the object of a configuration that has been read.
type manifest struct {
	kind schema.GroupVersionKind
	// body is the object with its texts.
	body *cel.JSON
}

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// readManifest reads the object of a configuration. The error names the key.
func readManifest(env *cel.Env, given map[string]any) (manifest, error) {
	var m manifest
	if len(given) == 0 {
		return m, errors.New("manifest: want an object with apiVersion, kind and, mostly, spec")
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		for _, known := range []string{"apiVersion", "kind", "metadata", "status"} {
			if key != known && strings.EqualFold(key, known) { // who reads it may not tell the two apart
				return m, fmt.Errorf("%s: want %s", strict.Join("manifest", key), known)
			}
		}
	}
	version, _ := given["apiVersion"].(string)
	kind, _ := given["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0 || gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 {
		return m, fmt.Errorf("manifest.apiVersion: want a group and a version such as argoproj.io/v1alpha1, without {{ }}, not %q", shorten(version))
	}
	if !kindPattern.MatchString(kind) {
		return m, fmt.Errorf("manifest.kind: want a kind such as Workflow, without {{ }}, not %q", shorten(kind))
	}
	m.kind = gv.WithKind(kind)
	if _, has := given["status"]; has {
		return m, errors.New("manifest.status: leave it out: the object's controller writes it")
	}
	if err := checkMetadata(given["metadata"]); err != nil {
		return m, err
	}
	text, err := json.Marshal(given)
	if err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	if m.body, err = env.JSON(text, nil); err != nil {
		err = cel.At("manifest", err)
		if bytes.Contains(text, []byte("{{")) {
			err = fmt.Errorf(`%w; a {{ for the object's own controller is written {{ "{{" }}`, err)
		}
		return m, err
	}
	return m, nil
}

// checkMetadata returns an error for metadata that are not an author's to say.
func checkMetadata(given any) error {
	if given == nil {
		return nil
	}
	metadata, isObject := given.(map[string]any)
	if !isObject {
		return errors.New("manifest.metadata: want an object with labels and annotations")
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch key {
		case "labels", "annotations":
			texts, isObject := metadata[key].(map[string]any)
			if !isObject && metadata[key] != nil {
				return fmt.Errorf("manifest.metadata.%s: want an object of strings", key)
			}
			for _, name := range slices.Sorted(maps.Keys(texts)) {
				if _, isText := texts[name].(string); !isText {
					return fmt.Errorf("%s: want a string: put it in quotes", strict.Join("manifest.metadata."+key, name))
				}
			}
		case "name", "generateName":
			return fmt.Errorf("manifest.metadata.%s: leave it out: the object is named after the Rollout, the step's id and its key, so that it is created once", key)
		case "namespace":
			return errors.New("manifest.metadata.namespace: leave it out: the object is in the Rollout's namespace")
		default:
			return fmt.Errorf("%s: leave it out: a step gives an object labels and annotations alone", strict.Join("manifest.metadata", key))
		}
	}
	return nil
}

// render returns the object, with the metadata of a step's object laid over its own.
func (m manifest) render(ctx context.Context, budget *cel.Budget, vars cel.Vars, meta metav1.ObjectMeta) (map[string]any, error) {
	text, err := m.body.Render(ctx, budget, vars, nil)
	if err != nil {
		return nil, cel.At("manifest", err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil { // it keeps large whole numbers
		return nil, err
	}
	own, _ := object["metadata"].(map[string]any)
	meta.Labels = laidOver(own["labels"], meta.Labels)
	meta.Annotations = laidOver(own["annotations"], meta.Annotations)
	object["metadata"] = meta
	return object, nil
}

// laidOver puts texts over those of a manifest, of which one that is nothing but one {{ }} may
// have become a number or a boolean.
func laidOver(under any, over map[string]string) map[string]string {
	texts := map[string]string{}
	own, _ := under.(map[string]any)
	for name, value := range own {
		text, isText := value.(string)
		if !isText {
			encoded, _ := json.Marshal(value) // it was JSON
			text = string(encoded)
		}
		texts[name] = text
	}
	maps.Copy(texts, over)
	return texts
}
