package check

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	documents "github.com/kedify/argo-rollouts-plugin/internal/manifest"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/kinds"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/trafficrouter/kedify"
)

// RunOnManifests checks the Rollouts in manifests, for which it needs no cluster: files
// of YAML or JSON, where "-" is stdin. A Rollout that names no namespace is taken to be
// in the given one. It is an error when a file cannot be read.
func RunOnManifests(files []string, stdin io.Reader, namespace string) (Report, error) {
	var report Report
	for _, file := range files {
		data, err := readManifests(file, stdin)
		if err != nil {
			return Report{}, err
		}
		report.Results = append(report.Results, lookAtManifests(file, data, namespace)...)
	}
	return report, nil
}

func readManifests(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("--filename -: read stdin: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--filename %s: %w", file, err)
	}
	return data, nil
}

// manifest is a Rollout as a file has it, before an API server has dropped what it does
// not know.
type manifest struct {
	file string
	// ro is nil where the manifest cannot be read as a Rollout; err says why.
	ro  *v1alpha1.Rollout
	err error
	// unknown are the paths of fields that Argo Rollouts does not have.
	unknown []string
}

// lookAtManifests makes the checks that need nothing but a Rollout.
func lookAtManifests(file string, data []byte, namespace string) []Result {
	var results []Result
	manifests := parseManifests(file, data)
	for _, m := range manifests {
		if m.ro == nil {
			results = append(results, fieldsOfManifest.named(checkFields(subject{manifest: &m}))...)
			continue
		}
		if m.ro.Namespace == "" {
			m.ro.Namespace = namespace
		}
		r := subjectOf(snapshot{steps: stepSnapshot{kinds: kinds.All}}, m.ro)
		r.manifest = &m
		results = append(results, lookAt(r)...)
		for i := range results { // edit the file, not the Rollout in the cluster
			results[i].Remedy = strings.ReplaceAll(results[i].Remedy, editRollout(m.ro), "edit "+file)
		}
	}
	if len(manifests) == 0 {
		results = rolloutFound.named([]Result{failure("File "+file, "holds no Rollout of argoproj.io/v1alpha1", "name the file that has it")})
	}
	hideCredentials(results)
	return results
}

// parseManifests returns the Rollouts among the documents of a file, and the documents
// that cannot be read.
func parseManifests(file string, data []byte) []manifest {
	var manifests []manifest
	for _, document := range documents.Documents(data) {
		if document.Err != nil {
			manifests = append(manifests, manifest{file: file, err: fmt.Errorf("document %d cannot be read: %w", document.Number, document.Err)})
		}
		for _, object := range document.Objects {
			m, isRollout := parseManifest(file, object)
			if isRollout {
				manifests = append(manifests, m)
			}
		}
	}
	return manifests
}

var unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)

// parseManifest reads a Rollout as the API server does, and records the fields that the API
// server drops.
func parseManifest(file string, text []byte) (m manifest, isRollout bool) {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if json.Unmarshal(text, &kind) != nil || kind.Kind != "Rollout" || !strings.HasPrefix(kind.APIVersion, "argoproj.io/") {
		return m, false
	}
	m.file = file
	scheme := runtime.NewScheme()
	if m.err = v1alpha1.AddToScheme(scheme); m.err != nil {
		return m, true
	}
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, serializer.SerializerOptions{Strict: true})
	decoded, _, err := decoder.Decode(text, nil, nil)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		m.err = fmt.Errorf("the Rollout cannot be read: %w", err)
		return m, true
	}
	m.ro, _ = decoded.(*v1alpha1.Rollout)
	if isStrict {
		for _, problem := range strict.Errors() {
			if match := unknownField.FindStringSubmatch(problem.Error()); match != nil {
				m.unknown = append(m.unknown, match[1])
			}
		}
	}
	return m, true
}

// checkFields: Argo Rollouts has every field of the manifest.
func checkFields(r subject) []Result {
	if r.manifest == nil {
		return nil // the API server has dropped what it does not know
	}
	at := "File " + r.manifest.file
	if r.manifest.ro == nil {
		return []Result{failure(at, r.manifest.err.Error(), "correct it: edit "+r.manifest.file)}
	}
	var results []Result
	for _, path := range r.manifest.unknown {
		message := fmt.Sprintf("Argo Rollouts has no field %s: the API server drops it, or kubectl refuses it", path)
		switch place := rightPlace(path); {
		case place != "":
			results = append(results, failure(at, message, fmt.Sprintf("move it to %s: edit %s", place, r.manifest.file)))
		case strings.HasPrefix(path, "spec.template.") || !strings.HasPrefix(path, "spec."):
			// Of another version of Kubernetes, or of no concern here.
			results = append(results, warning(at, message, "take it out, if the cluster's CustomResourceDefinition does not have it: edit "+r.manifest.file))
		default:
			results = append(results, failure(at, message, "correct it, or take it out: edit "+r.manifest.file))
		}
	}
	if len(results) == 0 {
		results = append(results, ok(at, "has no field that Argo Rollouts does not know"))
	}
	return results
}

// rightPlace returns where a misplaced field of traffic routing belongs; "" for any other
// field.
func rightPlace(path string) string {
	name := path[strings.LastIndex(path, ".")+1:]
	if strings.EqualFold(name, "trafficRouting") {
		return trafficRoutingField
	}
	if strings.EqualFold(name, "plugin") || strings.EqualFold(name, "plugins") {
		return pluginsField
	}
	if of := routerConfiguredBy(keyed(name, []byte(`""`))); of != "" {
		return fmt.Sprintf("%s[%q].%s", pluginsField, of, name)
	}
	for _, of := range []string{gatewayapi.DefaultPluginName, kedify.PluginName} {
		if strings.Contains(strings.ToLower(of), strings.ToLower(name)) {
			return fmt.Sprintf("%s[%q]", pluginsField, of)
		}
	}
	return ""
}
