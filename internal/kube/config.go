// Package kube reads and writes what the product needs of a cluster: client
// configuration, the metadata of one kind of object, and whole objects of an API
// group, from watches where the cluster grants them and by plain reads where it
// does not.
package kube

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// RESTConfig returns the client configuration of the environment: the file(s) that
// KUBECONFIG names, else the ServiceAccount of the pod, else ~/.kube/config. It makes
// no request. Requests are not throttled on the client's side: the API server's
// priority and fairness does that. They carry userAgent, such as "program/version", so
// that an audit log shows which program made them.
func RESTConfig(userAgent string) (*rest.Config, error) {
	cfg, err := environmentConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.UserAgent = userAgent
	return cfg, nil
}

func environmentConfig() (*rest.Config, error) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		cfg, err := rest.InClusterConfig()
		if err == nil {
			return cfg, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to talk to: not in a pod, and no usable kubeconfig (set KUBECONFIG): %w", err)
	}
	return cfg, nil
}
