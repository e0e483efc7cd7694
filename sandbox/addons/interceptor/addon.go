// Package interceptor is the add-on with this project's interceptor, from
// deploy/interceptor.
package interceptor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/envoy"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/httpscaledobject"
	"github.com/kedify/argo-rollouts-plugin/sandbox/addons/keda"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/addon"
	"github.com/kedify/argo-rollouts-plugin/sandbox/internal/image"
)

const (
	// Name of the add-on, and of its program.
	Name = "interceptor"
	// Namespace is the namespace that deploy/interceptor puts it in.
	Namespace = keda.Namespace
	// Scaler is the name of the scaler's program, which the interceptor's image has, too.
	Scaler = "scaler"
	// Agent is that of the agent's, which it has, too.
	Agent = "agent"
	// Deployment is the name of the interceptor's Deployment.
	Deployment = "keda-add-ons-http-interceptor"
)

// Addon describes the interceptor.
func Addon() addon.Addon {
	return addon.Addon{
		Name:    Name,
		Summary: "the interceptor, in namespace " + Namespace,
		// kedify-proxy, which users apply themselves, needs Envoy.
		Needs: []string{httpscaledobject.Name, envoy.Name},
		After: []string{keda.Name},
		Prepare: func(ctx context.Context, h addon.Host) (addon.Prepared, error) {
			path, err := h.Project(ctx, Name, ".", "./cmd/interceptor")
			if err != nil {
				return addon.Prepared{}, err
			}
			scaler, err := h.Project(ctx, Scaler, ".", "./cmd/scaler")
			if err != nil {
				return addon.Prepared{}, err
			}
			agent, err := h.Project(ctx, Agent, ".", "./cmd/agent")
			return addon.Prepared{Paths: addon.Paths{Name: path, Scaler: scaler, Agent: agent}}, err
		},
		Commands: []string{Name},
		Programs: []addon.Program{
			{Name: Name, Variable: "INTERCEPTOR", Built: "bin/" + Name},
			{Name: Scaler, Variable: "SCALER", Built: "bin/" + Scaler},
			{Name: Agent, Variable: "AGENT", Built: "bin/" + Agent},
		},
		Images: func(_ context.Context, paths addon.Paths) ([]image.Entry, error) {
			const program = "/interceptor"
			return []image.Entry{{
				Repository: "ghcr.io/kedify/argo-rollouts-interceptor",
				Tag:        "dev",
				Image: image.Image{
					Files:      map[string]string{program: paths[Name], "/scaler": paths[Scaler], "/agent": paths[Agent]},
					Entrypoint: []string{program},
				},
			}}, nil
		},
		Manifests: manifests,
		Ready:     []addon.Workload{{Kind: "Deployment", Namespace: Namespace, Name: Deployment}},
	}
}

func manifests(ctx context.Context, c *addon.Cluster) ([]addon.Manifests, error) {
	objects, err := c.Deployed(ctx, "interceptor")
	if err != nil {
		return nil, err
	}
	if err := logAnnotated(objects); err != nil {
		return nil, err
	}
	// The manifests make no namespace, as it is usually KEDA's. Without KEDA it is made
	// here, as that add-on makes it: it admits only pods that any cluster admits.
	if c.Find("Namespace", "", Namespace) == nil {
		objects = append(objects, addon.Namespace(Namespace, map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}))
	}
	return []addon.Manifests{{Namespace: Namespace, Objects: objects}}, nil
}

// logAnnotated turns the access logs of both proxies on for objects with the annotation,
// which an end-to-end test sets: the flags are none that a user has to give.
func logAnnotated(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if o.GetKind() != "Deployment" || o.GetName() != Deployment {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if len(containers) != 1 {
			return fmt.Errorf("deployment %s has %d containers; expected the interceptor alone", Deployment, len(containers))
		}
		container, _ := containers[0].(map[string]any)
		arguments, _, _ := unstructured.NestedStringSlice(container, "args")
		arguments = append(arguments, "--access-log=annotated", "--kedify-proxy-access-log=annotated")
		if err := unstructured.SetNestedStringSlice(container, arguments, "args"); err != nil {
			return err
		}
		return unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers")
	}
	return fmt.Errorf("deploy/interceptor has no Deployment %s", Deployment)
}
