package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// sources gives the objects that a pod refers to. A missing one is an error for
// which apierrors.IsNotFound holds.
type sources interface {
	configMap(namespace, name string) (*corev1.ConfigMap, error)
	secret(namespace, name string) (*corev1.Secret, error)
}

// podEnv is what the variables of a pod's containers are made from.
type podEnv struct {
	pod      *corev1.Pod
	podIP    string
	hostIP   string
	capacity corev1.ResourceList // of the node; it stands in for a missing limit
	services map[string]string   // see serviceEnv
	sources  sources
}

// environment returns the variables of a container: those of the image, of the
// services, from envFrom and from env, later ones win. The error names the
// variable and the object that is missing.
func (p podEnv) environment(c *corev1.Container, image []string) (map[string]string, error) {
	env := map[string]string{}
	for _, v := range image {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	maps.Copy(env, p.services)
	own := map[string]string{}
	for _, from := range c.EnvFrom {
		data, err := p.envFrom(from)
		if err != nil {
			return nil, err
		}
		for name, value := range data {
			// Keys that are not valid variable names are left out; they are no
			// error.
			if len(validation.IsRelaxedEnvVarName(from.Prefix+name)) == 0 {
				own[from.Prefix+name] = value
			}
		}
	}
	mapping := expansion.MappingFuncFor(own, p.services)
	for _, v := range c.Env {
		value, ok, err := p.value(c, v, mapping)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if ok {
			own[v.Name] = value
		}
	}
	maps.Copy(env, own)
	return env, nil
}

func (p podEnv) envFrom(from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		cm, err := p.sources.configMap(p.pod.Namespace, from.ConfigMapRef.Name)
		if missing(err, from.ConfigMapRef.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("envFrom: %w", err)
		}
		return cm.Data, nil
	case from.SecretRef != nil:
		secret, err := p.sources.secret(p.pod.Namespace, from.SecretRef.Name)
		if missing(err, from.SecretRef.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("envFrom: %w", err)
		}
		data := map[string]string{}
		for k, v := range secret.Data {
			data[k] = string(v)
		}
		return data, nil
	}
	return nil, nil
}

// value returns the value of a variable; ok is false if it is to be left out.
func (p podEnv) value(c *corev1.Container, v corev1.EnvVar, mapping func(string) string) (value string, ok bool, err error) {
	from := v.ValueFrom
	switch {
	case v.Value != "" || from == nil:
		return expansion.Expand(v.Value, mapping), true, nil
	case from.FieldRef != nil:
		value, err := p.field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		ref := *from.ResourceFieldRef
		if ref.ContainerName == "" || ref.ContainerName == c.Name {
			value, err := resourceField(c, ref, p.capacity)
			return value, err == nil, err
		}
		return "", false, fmt.Errorf("resourceFieldRef: container %q is another one", ref.ContainerName)
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := p.sources.configMap(p.pod.Namespace, ref.Name)
		if missing(err, ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		value, ok := cm.Data[ref.Key]
		if !ok && (ref.Optional == nil || !*ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, p.pod.Namespace, ref.Name)
		}
		return value, ok, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := p.sources.secret(p.pod.Namespace, ref.Name)
		if missing(err, ref.Optional) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		value, ok := secret.Data[ref.Key]
		if !ok && (ref.Optional == nil || !*ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, p.pod.Namespace, ref.Name)
		}
		return string(value), ok, nil
	}
	return "", false, errors.New("valueFrom: the sandbox knows fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef")
}

// field returns a field of the pod as the downward API has it.
func (p podEnv) field(path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return p.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return p.podIP, nil
	case "status.hostIP", "status.hostIPs":
		return p.hostIP, nil
	}
	value, err := fieldpath.ExtractFieldPathAsString(p.pod, path)
	if err != nil {
		return "", fmt.Errorf("fieldRef: %w", err)
	}
	return value, nil
}

// resourceField returns a request or limit, in units of the divisor, rounded up.
func resourceField(c *corev1.Container, ref corev1.ResourceFieldSelector, capacity corev1.ResourceList) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	var ok bool
	switch kind {
	case "limits":
		quantity, ok = c.Resources.Limits[corev1.ResourceName(name)]
		if !ok {
			// Without a limit, the node's capacity.
			quantity = capacity[corev1.ResourceName(name)]
		}
	case "requests":
		quantity = c.Resources.Requests[corev1.ResourceName(name)]
	default:
		return "", fmt.Errorf("resourceFieldRef: resource %q: expected limits.NAME or requests.NAME", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return strconv.FormatInt(ceil(float64(quantity.MilliValue()), float64(divisor.MilliValue())), 10), nil
	}
	return strconv.FormatInt(ceil(float64(quantity.Value()), float64(divisor.Value())), 10), nil
}

func ceil(a, b float64) int64 { return int64(math.Ceil(a / b)) }

// missing reports whether err says that an optional object does not exist.
func missing(err error, optional *bool) bool {
	return isNotFound(err) && optional != nil && *optional
}

// serviceEnv returns the variables that tell a pod where Services are: always the
// API server's, and those of the pod's own namespace if links.
func serviceEnv(services []*corev1.Service, namespace string, links bool) map[string]string {
	var seen []*corev1.Service
	for _, s := range services {
		apiServer := s.Namespace == corev1.NamespaceDefault && s.Name == "kubernetes"
		if len(s.Spec.Ports) > 0 && (apiServer || links && s.Namespace == namespace) {
			seen = append(seen, s)
		}
	}
	env := map[string]string{}
	for _, v := range envvars.FromServices(seen) {
		env[v.Name] = v.Value
	}
	return env
}

// commandLine returns what a container runs, with its variables expanded.
func commandLine(c *corev1.Container, entrypoint, args []string, env map[string]string) []string {
	mapping := expansion.MappingFuncFor(env)
	expand := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = expansion.Expand(s, mapping)
		}
		return out
	}
	switch {
	case len(c.Command) > 0:
		return append(expand(c.Command), expand(c.Args)...)
	case len(c.Args) > 0:
		return append(slices.Clone(entrypoint), expand(c.Args)...)
	}
	return append(slices.Clone(entrypoint), args...)
}

// envList is env as exec takes it, sorted.
func envList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
