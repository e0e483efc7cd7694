package presetsource

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/steps"
)

const (
	// keptFor is how long a preset that was read is used before it is read again.
	keptFor = 30 * time.Second
	// retryAfter is the wait after a failed read: without it, each call of the controller
	// would wait for another read.
	retryAfter = 5 * time.Second
)

// ConfigMap is a preset in a ConfigMap.
type ConfigMap struct {
	objects         *kube.Objects
	namespace, name string
	now             func() time.Time
	kept            kept

	// reading is held while the ConfigMap is read; it guards the fields below.
	reading chan struct{}
	next    time.Time
	failure error
}

// NewConfigMap returns the preset under the key preset.yaml of a ConfigMap, which is read at
// most every 30 seconds.
func NewConfigMap(objects *kube.Objects, namespace, name string, logger hclog.Logger) *ConfigMap {
	return &ConfigMap{
		objects: objects, namespace: namespace, name: name, now: time.Now,
		kept:    kept{where: fmt.Sprintf("preset ConfigMap %s/%s: data[%q]", namespace, name, steps.PresetKey), logger: logger},
		reading: make(chan struct{}, 1),
	}
}

// Preset returns the preset as it was within the last 30 seconds. While the ConfigMap cannot
// be read or does not exist, it returns the preset that was last read.
func (c *ConfigMap) Preset(ctx context.Context) (*steps.Preset, error) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return c.kept.unread(fmt.Errorf("preset ConfigMap %s/%s cannot be read: no answer from the API server yet", c.namespace, c.name))
	}
	if c.now().Before(c.next) {
		if c.failure != nil {
			return c.kept.unread(c.failure)
		}
		return c.kept.again()
	}
	var configMap corev1.ConfigMap
	err := c.read(ctx, &configMap)
	c.failure = err
	if err != nil {
		c.next = c.now().Add(retryAfter)
		return c.kept.unread(err)
	}
	c.next = c.now().Add(keptFor)
	text, found := configMap.Data[steps.PresetKey]
	if !found {
		return c.kept.wrong(fmt.Errorf("preset ConfigMap %s/%s has no data[%q]: put the preset there", c.namespace, c.name, steps.PresetKey))
	}
	return c.kept.take(text)
}

func (c *ConfigMap) read(ctx context.Context, into *corev1.ConfigMap) error {
	err := c.objects.Get(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), c.namespace, c.name, into)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("preset ConfigMap %s/%s does not exist: create it, with the preset under data[%q], or correct --preset in the plugin's args", c.namespace, c.name, steps.PresetKey)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the controller's ServiceAccount may not get the preset ConfigMap %s/%s: grant it that (deploy/rbac-step): %w", c.namespace, c.name, err)
	case err != nil:
		return fmt.Errorf("preset ConfigMap %s/%s cannot be read: %w", c.namespace, c.name, err)
	}
	return nil
}
