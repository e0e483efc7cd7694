package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/build"
)

// kubernetesSource is every Kubernetes component, etcd and kubectl in one binary; its
// first argument, or the name it is called by, selects one. version is a minor
// release such as "v1.35", or empty for the one of go.mod; files such as go-v1.35.mod
// beside it pin the other releases.
func kubernetesSource(repository, version string) (build.Source, error) {
	source := build.Source{
		Name:     kubernetesProgram,
		Dir:      filepath.Join(repository, "sandbox", "kubernetes"),
		Upstream: "k8s.io/kubernetes",
		Packages: []string{"."},
		// As Kubernetes' release builds stamp them.
		Stamp: "-X k8s.io/component-base/version.gitVersion={version} -X k8s.io/component-base/version.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion={version}",
	}
	if version == "" {
		return source, nil
	}
	source.ModFile = "go-" + version + ".mod"
	if _, err := os.Stat(filepath.Join(source.Dir, source.ModFile)); err != nil || strings.ContainsRune(version, os.PathSeparator) {
		return source, fmt.Errorf("no Kubernetes %q: there is the default one, and %s", version, strings.Join(otherKubernetes(source.Dir), ", "))
	}
	return source, nil
}

// kubernetesProgram is the name of the multi-call binary.
const kubernetesProgram = "kubernetes"

// otherKubernetes lists the minor releases besides that of go.mod.
func otherKubernetes(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "go-v*.mod"))
	var versions []string
	for _, file := range files {
		versions = append(versions, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "go-"), ".mod"))
	}
	slices.Sort(versions)
	return versions
}
