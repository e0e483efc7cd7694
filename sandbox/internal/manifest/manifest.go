// Package manifest reads Kubernetes objects from files.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Decode reads the objects of a YAML or JSON stream; a List counts as
// its items. The source names the stream in errors.
func Decode(source string, content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for i := 1; ; i++ {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("%s: document %d: %w", source, i, err)
		case len(object.Object) == 0:
			continue // only comments
		case object.IsList():
			list, err := object.ToList()
			if err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", source, i, err)
			}
			for item := range list.Items {
				objects = append(objects, &list.Items[item])
			}
		default:
			objects = append(objects, object)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
				return nil, fmt.Errorf("%s: document %d: apiVersion, kind and metadata.name are needed", source, i)
			}
		}
	}
}

// ReadFile reads the objects of one file.
func ReadFile(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(path, content)
}

// ReadDir reads the objects of all YAML files in dir, or what its kustomization makes
// of them; kubectl is a multi-call binary that runs as kubectl when its first
// argument is "kubectl".
func ReadDir(ctx context.Context, kubectl, dir string) ([]*unstructured.Unstructured, error) {
	_, err := os.Stat(filepath.Join(dir, "kustomization.yaml"))
	switch {
	case err == nil:
		cmd := exec.CommandContext(ctx, kubectl, "kubectl", "kustomize", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		content, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("kubectl kustomize %s: %w\n%s", dir, err, stderr.String())
		}
		return Decode(dir, content)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		more, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}
