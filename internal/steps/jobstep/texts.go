package jobstep

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

// textPaths are the places of strings in a JobSpec that may have CEL between {{ and }}; * is
// each item of a list.
var textPaths = func() (paths [][]string) {
	for _, containers := range []string{"initContainers", "containers"} {
		for _, text := range []string{"image", "command.*", "args.*", "env.*.value"} {
			paths = append(paths, strings.Split("template.spec."+containers+".*."+text, "."))
		}
	}
	return paths
}()

// eachText returns a JSON object in which f has replaced each string at one of textPaths. The
// error names the place.
func eachText(object json.RawMessage, f func(place, text string) (string, error)) (any, error) {
	var value any
	err := utiljson.Unmarshal(object, &value)
	for _, path := range textPaths {
		if err == nil {
			value, err = replace(value, path, "", f)
		}
	}
	return value, err
}

func replace(value any, path []string, place string, f func(place, text string) (string, error)) (any, error) {
	var err error
	switch value := value.(type) {
	case string:
		if len(path) == 0 {
			text, err := f(place, value)
			if err != nil {
				err = fmt.Errorf("%s: %w", place, err)
			}
			return text, err
		}
	case []any:
		for i := range value {
			if value[i], err = replace(value[i], path[1:], fmt.Sprintf("%s[%d]", place, i), f); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if inner, ok := value[path[0]]; ok {
			value[path[0]], err = replace(inner, path[1:], strings.TrimPrefix(place+"."+path[0], "."), f)
		}
	}
	return value, err
}

// parseTexts compiles the texts of a JobSpec, by place.
func parseTexts(env *cel.Env, spec json.RawMessage) (map[string]*cel.Text, error) {
	texts := map[string]*cel.Text{}
	_, err := eachText(spec, func(place, text string) (_ string, err error) {
		read := env.Container
		if strings.HasSuffix(place, ".image") {
			read = env.Text
		}
		texts[place], err = read(text)
		return text, err
	})
	return texts, err
}

// source is what a Job is made from.
type source struct {
	// from is the name of a CronJob; empty for none.
	from string
	// spec is the JobSpec as it is configured, texts are the compiled texts in it.
	spec  json.RawMessage
	texts map[string]*cel.Text
}

// newSource reads the section of a configuration that has a Job.
func newSource(env *cel.Env, section json.RawMessage) (*source, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(section, &keys); err != nil {
		return nil, err
	}
	var from string
	if keys["from"] != nil {
		if err := json.Unmarshal(keys["from"], &from); err != nil {
			return nil, err
		}
	}
	for _, own := range []string{"from", "logLines", "onAbort"} {
		delete(keys, own)
	}
	s := &source{from: strings.TrimPrefix(from, cronJobPrefix)}
	var err error
	if s.spec, err = json.Marshal(keys); err != nil {
		return nil, err
	}
	s.texts, err = parseTexts(env, s.spec)
	return s, err
}

// render returns the spec of a Job: the step's own with its texts evaluated, laid over that
// of a CronJob if there is one. The texts of a CronJob are as they are: it also runs without
// this step.
func (s *source) render(ctx context.Context, vars cel.Vars, cronJob json.RawMessage) (*batchv1.JobSpec, error) {
	budget := cel.NewBudget()
	own, err := eachText(s.spec, func(place, _ string) (string, error) { return s.texts[place].Render(ctx, budget, vars) })
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	if cronJob != nil {
		// The error is not shown, as it quotes the CronJob.
		if text, err = strategicpatch.StrategicMergePatch(cronJob, text, batchv1.JobSpec{}); err != nil {
			return nil, fmt.Errorf("from: %s%s and the keys beside it cannot be merged: each item of a list such as env or volumes needs its name", cronJobPrefix, s.from)
		}
	}
	var spec batchv1.JobSpec
	return &spec, json.Unmarshal(text, &spec)
}
