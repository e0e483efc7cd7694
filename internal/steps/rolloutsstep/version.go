package rolloutsstep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/cel"
)

// versionNames are the names to which an expression for a version can refer: what can be the
// same in each cluster, and is known of Rollouts of other clusters.
var versionNames = []string{"images.new", "rollout.annotations", "rollout.labels", "rollout.name", "rollout.namespace"}

// versionRule makes a text of a Rollout's version. Two Rollouts with the same text have the
// same version.
type versionRule struct {
	// expression is nil for the images' tags and digests.
	expression *cel.Expression
}

// readVersionRule reads the key `version`.
func readVersionRule(source string) (versionRule, error) {
	if source == "" {
		return versionRule{}, nil
	}
	env, err := cel.New(cel.Declarations{})
	if err != nil {
		return versionRule{}, err
	}
	expression, err := env.Output(source)
	if err != nil {
		return versionRule{}, fmt.Errorf("version: %w", err)
	}
	for _, used := range expression.Names {
		if !slices.Contains(versionNames, used) {
			return versionRule{}, fmt.Errorf("version: %s differs from cluster to cluster, or is not known of another one: want an expression over %s", used, strings.Join(versionNames, ", "))
		}
	}
	return versionRule{expression}, nil
}

// versioned is what a version is made from.
type versioned struct {
	name                        name
	labels, annotations, images map[string]string
}

// versionedSelf returns what the version of the Rollout that waits is made from. The
// controller sends the template of a workloadRef along.
func versionedSelf(ro *v1alpha1.Rollout) (versioned, error) {
	images, err := imagesByContainer(&ro.Spec.Template)
	if err != nil {
		return versioned{}, fmt.Errorf("this Rollout: %w", err)
	}
	return versioned{name{ro.Namespace, ro.Name}, ro.Labels, annotationsOf(ro.Annotations), images}, nil
}

// versionedOf returns what the version of a region's Rollout is made from.
func (v regionView) versionedOf(ctx context.Context, r *kube.Summary[Rollout]) (versioned, error) {
	from := versioned{name{r.Namespace, r.Name}, r.Labels, r.Content.Annotations, r.Content.Images}
	var err error
	if r.Content.ReplicaSet != "" {
		from.images, err = v.images(ctx, r.Namespace, r.Content.ReplicaSet)
	}
	return from, err
}

// of returns the version.
func (r versionRule) of(ctx context.Context, budget *cel.Budget, from versioned) (string, error) {
	if r.expression == nil {
		return tagsOf(from.images)
	}
	version, err := r.expression.Text(ctx, budget, cel.Vars{
		"rollout": map[string]any{"name": from.name.name, "namespace": from.name.namespace, "labels": from.labels, "annotations": from.annotations},
		"images":  map[string]any{"new": from.images},
	})
	if err == nil && version == "" {
		err = errors.New("its value is empty")
	}
	return version, err
}

// tagsOf returns the tag or digest of each image, by container: "app v2, proxy v1.3".
func tagsOf(images map[string]string) (string, error) {
	if len(images) == 0 {
		return "", errors.New("it has no containers")
	}
	var tags []string
	for _, container := range slices.Sorted(maps.Keys(images)) {
		tags = append(tags, container+" "+tagOf(images[container]))
	}
	return strings.Join(tags, tagSeparator), nil
}

const tagSeparator = ", "

// tagOf returns the digest of an image, or else its tag.
func tagOf(image string) string {
	if _, digest, found := strings.Cut(image, "@"); found {
		return digest
	}
	// A colon before the last slash is that of a port.
	if _, tag, found := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":"); found {
		return tag
	}
	return "latest"
}

// differing returns those parts of a version that another one does not have: all of the
// containers may be too much for a message.
func differing(version, other string) string {
	others := strings.Split(other, tagSeparator)
	parts := slices.DeleteFunc(strings.Split(version, tagSeparator), func(part string) bool { return slices.Contains(others, part) })
	if len(parts) == 0 {
		return "no more" // the other has one container more
	}
	return shorten(strings.Join(parts, tagSeparator))
}
