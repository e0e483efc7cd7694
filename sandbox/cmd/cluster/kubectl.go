package main

import (
	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlscheme "k8s.io/kubectl/pkg/scheme"
)

// runKubectl runs kubectl as it is when it is a program of its own. Argo Rollouts'
// plugin, linked into this binary, registers its types with kubectl's scheme,
// and kubectl apply would then change a Rollout by a strategic merge patch, which
// no custom resource takes.
func runKubectl() int {
	plain := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(plain))
	versions := map[string][]schema.GroupVersion{}
	for _, version := range kubectlscheme.Scheme.PrioritizedVersionsAllGroups() {
		if version.Group != rollouts.Group {
			versions[version.Group] = append(versions[version.Group], version)
		}
	}
	for _, inOrder := range versions {
		utilruntime.Must(plain.SetVersionPriority(inOrder...))
	}
	kubectlscheme.Scheme = plain
	return run(kubectl.NewDefaultKubectlCommand())
}
