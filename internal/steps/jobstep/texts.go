package jobstep

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/steps/bound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/template"
)

// text is a string of a JobSpec that is a template.
type text struct {
	path     string
	template *template.Template
}

// textsOf calls visit with each string of a JobSpec that is a template, and its path.
func textsOf(spec *batchv1.JobSpec, visit func(path string, value *string) error) error {
	pod := &spec.Template.Spec
	for _, group := range []struct {
		path       string
		containers []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i := range group.containers {
			path := fmt.Sprintf("job.template.spec.%s[%d]", group.path, i)
			if err := textsOfContainer(path, &group.containers[i], visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func textsOfContainer(path string, c *corev1.Container, visit func(path string, value *string) error) error {
	if err := visit(path+".image", &c.Image); err != nil {
		return err
	}
	for i := range c.Command {
		if err := visit(fmt.Sprintf("%s.command[%d]", path, i), &c.Command[i]); err != nil {
			return err
		}
	}
	for i := range c.Args {
		if err := visit(fmt.Sprintf("%s.args[%d]", path, i), &c.Args[i]); err != nil {
			return err
		}
	}
	for i := range c.Env {
		if err := visit(fmt.Sprintf("%s.env[%d].value", path, i), &c.Env[i].Value); err != nil {
			return err
		}
	}
	return nil
}

// parseTexts reads the templates of a JobSpec. The error names the path.
func parseTexts(spec *batchv1.JobSpec) ([]text, error) {
	var texts []text
	err := textsOf(spec, func(path string, value *string) error {
		parsed, err := template.Parse(*value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		texts = append(texts, text{path, parsed})
		return nil
	})
	return texts, err
}

// render returns a copy of a JobSpec with its templates rendered. One pool bounds the work
// of all templates together.
func render(spec *batchv1.JobSpec, texts []text, scope map[string]any) (*batchv1.JobSpec, error) {
	rendered := spec.DeepCopy()
	next, pool := 0, bound.NewPool()
	err := textsOf(rendered, func(path string, value *string) error {
		result, err := texts[next].template.Within(pool).Render(scope)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*value = result
		next++
		return nil
	})
	return rendered, err
}
