package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8stypes "k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/sandbox/bench/internal/gauge"
)

const (
	registrations = 10
	presets       = 100
)

// memory is the resident memory of registrations that no step has used, together, and that of
// one registration of which steps use many presets.
func (w *world) memory(ctx context.Context) error {
	gauge.Say("memory of %d idle registrations, and of one with %d presets", registrations, presets)
	kinds := []registration{w.ofKind("http"), w.ofKind("job"), w.ofKind("rollouts"), w.ofKind("resource")}
	own, err := w.residentTogether(func(i int) registration { return kinds[i%len(kinds)] })
	if err != nil {
		return err
	}
	idle, err := w.residentTogether(func(int) registration { return w.doNothing() })
	if err != nil {
		return err
	}
	used, err := w.residentWithPresets(ctx)
	if err != nil {
		return err
	}
	table := gauge.NewTable("memory\tmeasured\tdo-nothing\tratio\t")
	table.Row("%d idle registrations together\t%.0f MB\t%.0f MB\t%.2f\t", registrations, own, idle, own/idle)
	table.Row("one registration, after steps with %d presets\t%.0f MB\t\t\t", presets, used)
	sizes := make([]float64, 2)
	for i, path := range []string{w.plugin, w.idle} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		sizes[i] = float64(info.Size()) / 1e6
	}
	table.Row("the program\t%.1f MB\t%.1f MB\t%.2f\t", sizes[0], sizes[1], sizes[0]/sizes[1])
	table.Print()
	return nil
}

// residentTogether starts ten registrations, and returns their memory in MB. Each has a file
// of its own, as the controller downloads the program for each, so that no two of
// them share pages.
func (w *world) residentTogether(registered func(int) registration) (float64, error) {
	var started []*process
	for i := range registrations {
		r := registered(i)
		copied := filepath.Join(w.dir, fmt.Sprintf("registration-%d", i))
		if err := copyProgram(r.path, copied); err != nil {
			return 0, err
		}
		r.path = copied
		p, err := r.start()
		if err != nil {
			return 0, err
		}
		defer p.Kill()
		started = append(started, p)
	}
	sum := 0.0
	for _, p := range started {
		mb, err := p.Resident()
		if err != nil {
			return 0, err
		}
		sum += mb
	}
	return sum, nil
}

// residentWithPresets returns the memory in MB of one registration after a step of each preset
// has begun.
func (w *world) residentWithPresets(ctx context.Context) (float64, error) {
	configMaps := w.client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(gauge.Namespace)
	steps := make([]*step, presets)
	for i := range steps {
		name := fmt.Sprintf("preset-%03d", i)
		text := fmt.Sprintf(`{"hosts": [%q], "locked": ["http"], "defaults": %s}`, strings.TrimPrefix(w.outside.url, "http://"), w.outside.config("/runs"))
		if _, err := configMaps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"rollouts.kedify.io/step-preset": "true"}},
			"data":     map[string]any{"preset.yaml": text},
		}}, metav1.CreateOptions{}); err != nil {
			return 0, err
		}
		use := wait{name, w.every(), func(string) json.RawMessage { return fmt.Appendf(nil, `{"use": %q}`, name) }}
		object, err := rollout(gauge.Namespace, name, name, []v1alpha1.CanaryStep{pluginStep(use.name, use.config(""))})
		if err != nil {
			return 0, err
		}
		steps[i] = &step{wait: use}
		if steps[i].rollout, err = typed(object); err != nil {
			return 0, err
		}
		steps[i].rollout.UID = k8stypes.UID(name)
	}
	p, err := w.every().start()
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	before := w.outside.started.Load()
	err = gauge.Poll(ctx, 100*time.Millisecond, "each preset is used", func() (bool, error) {
		err := gauge.Each(workers, 0, len(steps), func(i int) error {
			_, err := steps[i].run(p)
			return err
		})
		return w.outside.started.Load()-before >= presets, err
	})
	if err != nil {
		return 0, err
	}
	return p.Resident()
}

func copyProgram(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
