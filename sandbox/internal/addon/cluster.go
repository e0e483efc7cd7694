package addon

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

// Cluster is the sandbox from inside, while the manifests of its add-ons are
// put together.
type Cluster struct {
	// Paths are what Prepare has returned.
	Paths Paths
	// Deploy is the directory of the manifests that users of this project apply.
	Deploy string
	// Kubectl is a multi-call binary that runs as kubectl when its first argument is
	// "kubectl".
	Kubectl string
	// Releases is the URL under which Addon.Releases are served, without a slash
	// at its end.
	Releases string
	// Before are the manifests of the add-ons before this one.
	Before []Manifests
}

// Find returns an object in Before, which the caller may change; nil if there is
// none.
func (c *Cluster) Find(kind, namespace, name string) *unstructured.Unstructured {
	return find(c.Before, namespace, name, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
}

// Deployed reads the manifests in a directory of Deploy, or what its
// kustomization makes of them.
func (c *Cluster) Deployed(ctx context.Context, name string) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(c.Deploy, name)
	objects, err := manifest.ReadDir(ctx, c.Kubectl, dir)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("no manifests in %s: pass the repository's deploy directory with --deploy", dir)
	}
	return objects, nil
}
