package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// watchedSources reads the objects that pods refer to from watch caches. An object
// that is not in the cache is requested from the API server: it may have been
// created just before the pod.
type watchedSources struct {
	client     kubernetes.Interface
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
}

func (s watchedSources) configMap(namespace, name string) (*corev1.ConfigMap, error) {
	cm, err := s.configMaps.ConfigMaps(namespace).Get(name)
	if isNotFound(err) {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		cm, err = s.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	}
	return cm, nil
}

func (s watchedSources) secret(namespace, name string) (*corev1.Secret, error) {
	secret, err := s.secrets.Secrets(namespace).Get(name)
	if isNotFound(err) {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		secret, err = s.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %w", namespace, name, err)
	}
	return secret, nil
}
