package check

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the interceptors are, as deploy/interceptor and Kedify's charts install
// them.
const (
	defaultInterceptorNamespace = "keda"
	interceptorAdminService     = "keda-add-ons-http-interceptor-admin"
	interceptorAdminPort        = 9090
)

// interceptorLook is what one interceptor serves.
type interceptorLook struct {
	pod  corev1.Pod
	port int32
	err  *readError
	// foreign is true for an interceptor that does not show its routes.
	foreign bool
	routes  *interceptorRoutes
}

// interceptorRoutes is the part of an interceptor's /debug/routes that the
// checks read.
type interceptorRoutes struct {
	Routes []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Backends  []struct {
			Service string `json:"service"`
			Weight  uint64 `json:"weight"`
		} `json:"backends"`
	} `json:"routes"`
	Problems []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Message   string `json:"message"`
	} `json:"problems"`
}

// findInterceptors returns the pods that the interceptors' admin Service
// selects: none, and no error, where there is no such Service.
func findInterceptors(ctx context.Context, c *cluster, opts Options) (read[string], []interceptorLook) {
	namespace := opts.InterceptorNamespace
	if namespace == "" {
		namespace = defaultInterceptorNamespace
	}
	service := get[corev1.Service](ctx, c, target{version: "v1", resource: "services", namespace: namespace, name: interceptorAdminService})
	if service.Err.notFound() || service.Err == nil && len(service.Value.Spec.Selector) == 0 {
		return read[string]{}, nil
	}
	if service.Err != nil {
		return read[string]{Err: service.Err}, nil
	}
	t := target{version: "v1", resource: "pods", namespace: namespace}
	t.query = map[string]string{"labelSelector": metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: service.Value.Spec.Selector})}
	pods := list[corev1.Pod](ctx, c, t)
	var found []interceptorLook
	for _, pod := range livePods(pods.Value) {
		found = append(found, interceptorLook{pod: pod, port: podPort(&service.Value, pod, interceptorAdminPort)})
	}
	return read[string]{Value: object("Service", namespace, interceptorAdminService), Err: pods.Err}, found
}

func (l *interceptorLook) ask(ctx context.Context, c *cluster) {
	answer := c.podGet(ctx, l.pod.Namespace, l.pod.Name, l.port, "/debug/routes", nil)
	if answer.Err.notFound() {
		l.foreign = true
		return
	}
	if l.err = answer.Err; l.err != nil {
		return
	}
	routes, err := parseInterceptorRoutes(answer.Value)
	if err != nil {
		l.err = target{version: "v1", resource: "pods", namespace: l.pod.Namespace, name: l.pod.Name, subresource: "proxy"}.failed("get", err)
		return
	}
	l.routes = routes
}

func parseInterceptorRoutes(data []byte) (*interceptorRoutes, error) {
	var routes interceptorRoutes
	if err := json.Unmarshal(data, &routes); err != nil {
		return nil, fmt.Errorf("unreadable /debug/routes of the interceptor: %w", err)
	}
	return &routes, nil
}

func (l *interceptorLook) asWanted(n namespaceSnapshot, objects []httpScaledObject) bool {
	if l.foreign {
		return true
	}
	if l.routes == nil {
		return false
	}
	for _, o := range objects {
		want, servable := wantedSplit(n, o)
		if servable && difference(want, l.routes.of(o)) != "" {
			return false
		}
	}
	return true
}

// of returns what is served for an HTTPScaledObject.
func (r *interceptorRoutes) of(o httpScaledObject) []servedSplit {
	var splits []servedSplit
	for _, route := range r.Routes {
		if route.Namespace != o.Namespace || route.Name != o.Name {
			continue
		}
		var split servedSplit
		for _, b := range route.Backends {
			split.weights = append(split.weights, servedWeight{b.Service, b.Weight})
		}
		splits = append(splits, split)
	}
	return splits
}

// problem returns what the interceptor says is wrong with an HTTPScaledObject,
// or "".
func (r *interceptorRoutes) problem(o httpScaledObject) string {
	for _, p := range r.Problems {
		if p.Namespace == o.Namespace && p.Name == o.Name {
			return p.Message
		}
	}
	return ""
}
