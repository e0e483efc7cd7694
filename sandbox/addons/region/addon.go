// Package region is the add-on with a second cluster, for steps that wait for other
// regions: etcd, an API server and its controllers, and Argo Rollouts with the plugins of
// the sandbox's own. They are pods of the sandbox in a namespace; what is in the second
// cluster is its objects alone.
//
// Its pods are marked ready and nothing runs for them. A Rollout without traffic router
// looks at its ReplicaSets alone, and a ReplicaSet at the condition Ready of its pods: a
// second node would run processes that no test asks for anything. A kubelet that pretends,
// such as kwok, is a module of its own with a few hundred packages to build, for one
// patch of a status (sandbox/cmd/images/region).
package region

import (
	"context"
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/argorollouts"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/stepplugin"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/manifest"
)

const (
	// Name of the add-on.
	Name = "region"
	// Namespace is the namespace of its pods, in the sandbox's own cluster.
	Namespace = "region-eu"
	// Host is where its API server answers, with a certificate for this name and for the
	// node's address, where tests may have a relay.
	Host = APIServer + "." + Namespace + ".svc"
	// Port is the API server's.
	Port = "443"
	// APIServer is the Deployment of its API server. Scaled to 0, that is away.
	APIServer = "kube-apiserver"
	// Controllers is the Deployment of its controllers.
	Controllers = "controllers"
	// Etcd is the Deployment of its etcd, which forgets everything with its pod.
	Etcd = "etcd"
	// Kubeconfigs is the Secret with a kubeconfig for each client.
	Kubeconfigs = "kubeconfigs"
	// Admin is the key of the administrator's kubeconfig in that Secret.
	Admin = "admin"

	program    = "region"
	kubernetes = "kubernetes"
	objects    = "objects.json"
	repository = "sandbox/region"

	nodeIP = "10.244.0.1" // cluster.NodeIP, which imports the add-ons
)

// pods are the Deployments and Services of the second cluster.
//
//go:embed pods.yaml
var pods string

// Addon describes the second cluster.
func Addon() addon.Addon {
	return addon.Addon{
		Name:     Name,
		Summary:  "a second cluster with Argo Rollouts and the canary step plugin, from namespace " + Namespace,
		Needs:    []string{stepplugin.Name},
		StandIns: []string{program},
		Prepare: func(_ context.Context, h addon.Host) (addon.Prepared, error) {
			return addon.Prepared{Paths: addon.Paths{kubernetes: h.Kubernetes, objects: filepath.Join(h.Dir, objects)}}, nil
		},
		// The control plane's, and one with what makes a cluster of it.
		Images: []image.Entry{
			{Repository: repository, Tag: "*", Image: image.Image{
				Files:      map[string]string{"/" + program: program, "/bin/kubectl": kubernetes, "/" + objects: objects},
				Entrypoint: []string{"/" + program},
			}},
			image.Program("registry.k8s.io/etcd", "/usr/local/bin/etcd", kubernetes),
			image.Program("registry.k8s.io/kube-apiserver", "/usr/local/bin/kube-apiserver", kubernetes),
			image.Program("registry.k8s.io/kube-controller-manager", "/usr/local/bin/kube-controller-manager", kubernetes),
		},
		Manifests: manifests,
		Ready:     []addon.Workload{{Kind: "Deployment", Namespace: Namespace, Name: Controllers, Health: ":8080/healthz"}},
	}
}

func manifests(_ context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	if err := writeObjects(c); err != nil {
		return nil, err
	}
	all, err := manifest.Decode("pods.yaml", []byte(strings.NewReplacer("@ROLLOUTS@", argorollouts.Version).Replace(pods)))
	if err != nil {
		return nil, err
	}
	secrets, err := secrets()
	if err != nil {
		return nil, err
	}
	all = append(append(all, secrets...), addon.Namespace(Namespace))
	return []addon.Manifests{{Namespace: Namespace, Objects: all}}, nil
}

// writeObjects writes what is to be in the second cluster: Argo Rollouts as it is in the
// sandbox's own, with its plugins and their permissions. The Deployment is left out: the
// controller is a pod of the sandbox. It is a file of the image, as its definitions are
// too large for a ConfigMap.
func writeObjects(c *addon.Cluster) error {
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, m := range c.Before {
		for _, object := range m.Objects {
			if m.Namespace != argorollouts.Namespace || object.GetKind() == "Deployment" {
				continue
			}
			if object.GetKind() == "Namespace" {
				list.Items = append([]unstructured.Unstructured{*object}, list.Items...) // the others are in it
				continue
			}
			list.Items = append(list.Items, *object)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(c.Paths[objects], text, 0o644)
}
